"""The states of PyTorch's generators, for what is computed twice with the same random numbers."""

from __future__ import annotations

from typing import Any, List, Tuple

States = Tuple[Any, List[Any]]


def read(torch: Any) -> States:
    """That of the CPU, and those of all devices that are in use."""
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


def restore(torch: Any, states: States) -> None:
    torch.set_rng_state(states[0])
    if states[1]:
        torch.cuda.set_rng_state_all(states[1])
