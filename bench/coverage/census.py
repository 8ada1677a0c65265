"""Runs a script and says on standard error what it did: modules called, elements they gave, gradients and states.

    python census.py [--optimizers-only] SCRIPT [ARGUMENT ...]

The same program is counted twice, where the values are real (on the CPU) and on the virtual device. Control flow that
took another turn, a selection of another size, an expert without gradient: each is a difference of the two counts.
What PyTorch's allocator says of itself is added where there is a device.
"""

from __future__ import annotations

import collections
import json
import os
import runpy
import sys
import weakref
from pathlib import Path
from typing import Any

MARK = "CENSUS"


class Census:
    """What was counted so far."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self.elements: collections.Counter[str] = collections.Counter()
        self.steps = 0
        self.with_gradient: list[int] = []
        self.states: list[int] = []
        self.held_bytes = 0
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()

    def module_ended(self, module: Any, _arguments: Any, output: Any) -> None:
        """A module's `forward` returned."""
        name = type(module).__name__
        self.calls[name] += 1
        self.elements[name] += count_elements(output)

    def optimizer_ended(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        """An optimizer's `step` returned; its gradients are still there."""
        self.steps += 1
        self.optimizers.add(optimizer)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.with_gradient.append(sum(p.grad is not None for p in parameters))
        self.states.append(sum(state_bytes(optimizer, p) for p in parameters))
        held = 0
        for each in self.optimizers:
            for p in (p for group in each.param_groups for p in group["params"]):
                held += n_bytes(p) + (n_bytes(p.grad) if p.grad is not None else 0) + state_bytes(each, p)
        self.held_bytes = max(self.held_bytes, held)

    def report(self) -> dict[str, Any]:
        """All counts; the allocator's own figures where there is a device."""
        import torch

        counts: dict[str, Any] = {
            "rank": int(os.environ.get("RANK", "0")),
            "calls": dict(sorted(self.calls.items())),
            "elements": dict(sorted(self.elements.items())),
            "optimizer_steps": self.steps,
            "parameters_with_gradient": self.with_gradient[-8:],
            "state_bytes": self.states[-8:],
            "held_bytes": self.held_bytes,
        }
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            device = torch.cuda.current_device()
            counts["max_memory_allocated"] = torch.cuda.max_memory_allocated(device)
            counts["max_memory_reserved"] = torch.cuda.max_memory_reserved(device)
        return counts


def n_bytes(tensor: Any) -> int:
    """Bytes of the elements, of sparse tensors of their values and indices."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    if tensor.is_sparse:
        return n_bytes(tensor._values()) + n_bytes(tensor._indices())
    return int(tensor.numel() * tensor.element_size())


def state_bytes(optimizer: Any, parameter: Any) -> int:
    """Bytes of a parameter's state; scalars are left out, because they may live on the host."""
    import torch

    kept = optimizer.state.get(parameter, {}) if hasattr(optimizer.state, "get") else {}
    return sum(n_bytes(value) for value in kept.values() if isinstance(value, torch.Tensor) and value.numel() > 1)


def count_elements(value: Any) -> int:
    """Elements of all tensors in what a module returned."""
    import torch

    if isinstance(value, torch.Tensor):
        return int(value.numel())
    if isinstance(value, dict):
        return sum(count_elements(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return sum(count_elements(each) for each in value)
    return 0


def let_trainers_count() -> None:
    """Without a device the Trainer refuses bfloat16, though a CPU has it."""
    if "transformers" not in sys.modules:
        return
    import torch
    from transformers import training_args

    if not torch.cuda.is_available():
        training_args.is_torch_bf16_gpu_available = lambda: True


def main() -> None:
    """Counts while the script runs."""
    del sys.argv[0]
    optimizers_only = sys.argv[0] == "--optimizers-only"
    if optimizers_only:
        del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)

    from torch.nn.modules.module import register_module_forward_hook
    from torch.optim.optimizer import register_optimizer_step_post_hook

    census = Census()
    register_optimizer_step_post_hook(census.optimizer_ended)
    if not optimizers_only:
        register_module_forward_hook(census.module_ended)
    let_trainers_count()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.stderr.write(f"\n{MARK}{json.dumps(census.report())}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
