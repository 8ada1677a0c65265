"""A small program twice: as a script has it, and as the rules say what it allocates."""

from __future__ import annotations

from typing import Callable, ClassVar, Dict, List, Type

import torch
from model import Model


class Program:
    """`real` uses the device and `rules` the model; each calls `mark` at the same moments."""

    all: ClassVar[List[Type[Program]]] = []
    is_slow: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        Program.all.append(cls)

    @staticmethod
    def real(mark: Callable[[], None]) -> None:
        raise NotImplementedError

    @staticmethod
    def rules(m: Model) -> None:
        raise NotImplementedError


def take(size: int) -> torch.Tensor:
    """Memory of this size on the device."""
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def marks(program: Type[Program]) -> List[Dict[str, int]]:
    """What the device says at each mark, with nothing left over from programs before."""
    found: List[Dict[str, int]] = []
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    assert before["allocated_bytes.all.current"] == before["reserved_bytes.all.current"] == 0, program

    def mark() -> None:
        stats = torch.cuda.memory_stats()
        found.append(
            {
                "allocated": stats["allocated_bytes.all.current"],
                "peak_allocated": stats["allocated_bytes.all.peak"],
                "active": stats["active_bytes.all.current"],
                "requested": stats["requested_bytes.all.current"],
                "peak_requested": stats["requested_bytes.all.peak"],
                "reserved": stats["reserved_bytes.all.current"],
                "peak_reserved": stats["reserved_bytes.all.peak"],
                "segments": stats["segment.all.current"],
                "allocations": stats["allocation.all.current"],
                "retries": stats["num_alloc_retries"] - before["num_alloc_retries"],
                "ooms": stats["num_ooms"] - before["num_ooms"],
            }
        )

    program.real(mark)
    return found
