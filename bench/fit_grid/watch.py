"""What one run of a script did, seen from outside of it: peaks, the device's time of a step, rows of a step, gradients.

It knows neither tools nor levers, and asks only PyTorch: its allocator's counters, events of CUDA, hooks of optimizers.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any


class Watch:
    """Counts while a script runs in this process."""

    def __init__(self, *, rows: bool, gradients: Path | None, compare_with: Path | None) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self._torch = torch
        self._events: list[Any] = []
        self._rows: list[int] = []
        self._rows_now = 0
        self._gradients = gradients
        self._compare_with = compare_with
        self._compared: tuple[float, str] | None = None
        self._kept: list[dict[str, Any]] = []
        register_optimizer_step_pre_hook(self._step_begins)
        register_optimizer_step_post_hook(self._step_ended)
        if rows:
            self._count_rows()

    def _count_rows(self) -> None:
        """The first dimension of what the outermost module gets while it learns."""
        torch = self._torch
        usual = torch.nn.Module.__call__

        def first_tensor(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return value if value.dim() else None
            if isinstance(value, dict):
                value = list(value.values())
            if isinstance(value, (list, tuple)):
                return next((found for each in value if (found := first_tensor(each)) is not None), None)
            return None

        def before(module: Any, arguments: Any, options: Any) -> None:
            if module.training and torch.is_grad_enabled():
                tensor = first_tensor([arguments, options])
                self._rows_now += 0 if tensor is None else len(tensor)

        def call(module: Any, *arguments: Any, **options: Any) -> Any:
            torch.nn.Module.__call__ = usual
            module.register_forward_pre_hook(before, with_kwargs=True)
            return module(*arguments, **options)

        torch.nn.Module.__call__ = call

    def _step_begins(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        if self._gradients is not None and len(self._kept) < 3:
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            self._kept.append({str(i): p.grad.detach().clone() for i, p in enumerate(parameters) if p.grad is not None})

    def _step_ended(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        torch = self._torch
        self._rows.append(self._rows_now)
        self._rows_now = 0
        if torch.cuda.is_initialized():
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)
        if self._gradients is not None and len(self._rows) == 3:
            parameters = [p.detach().clone() for group in optimizer.param_groups for p in group["params"]]
            torch.save([*self._kept, {str(i): parameter for i, parameter in enumerate(parameters)}], self._gradients)
            if self._compare_with is not None and self._compare_with.exists():
                self._compared = self._compare(torch.load(self._compare_with), torch.load(self._gradients))

    def _compare(self, plain: list[dict[str, Any]], other: list[dict[str, Any]]) -> tuple[float, str]:
        """The largest relative difference, and where it is: gradients of three steps, then the parameters.

        A gradient that is zero but for rounding, as of a bias that a normalization takes away, has no digits to
        compare: it is measured by the largest of the step, and its parameter, which Adam moves all the same, not at
        all. A plan under which no gradient is left when the step begins is compared by its parameters alone.
        """
        worst, where = 0.0, ""
        for step, (ours, theirs) in enumerate(zip(plain, other)):
            learned = step == len(plain) - 1
            said = "parameter after three steps" if learned else f"gradient of step {step}"
            if not theirs and not learned:
                continue
            if sorted(ours) != sorted(theirs):
                return float("inf"), f"{said}: not of the same parameters"
            sizes = {name: float(tensor.abs().max()) for name, tensor in ours.items() if tensor.numel()}
            least = max(sizes.values(), default=0.0) * 1e-3
            for name, size in sizes.items():
                if ours[name].shape != theirs[name].shape:
                    return float("inf"), f"{said} {name}: of another shape"
                if learned and self._is_noise(plain, name):
                    continue
                width = float((ours[name] - theirs[name]).abs().max()) / max(size, 1e-30 if learned else least)
                if not width <= worst:
                    worst, where = width, f"{said} {name}"
        return worst, where

    @staticmethod
    def _is_noise(plain: list[dict[str, Any]], name: str) -> bool:
        for gradients in plain[:-1]:
            if name in gradients and gradients[name].numel():
                largest = max(float(tensor.abs().max()) for tensor in gradients.values() if tensor.numel())
                if float(gradients[name].abs().max()) < 1e-5 * largest:
                    return True
        return False

    def report(self) -> dict[str, Any]:
        """What was seen."""
        torch = self._torch
        seen: dict[str, Any] = {"optimizer_steps": len(self._rows), "rows": self._rows, "compared": self._compared}
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
            times = [a.elapsed_time(b) * 1e6 for a, b in zip(self._events, self._events[1:])]
            # The first interval has the second step in it, whose states and caches are there.
            seen["step_ns"] = round(statistics.median(times)) if times else None
            seen["allocated_bytes"] = torch.cuda.max_memory_allocated()
            seen["reserved_bytes"] = torch.cuda.max_memory_reserved()
            seen["retries"] = torch.cuda.memory_stats().get("num_alloc_retries", 0)
        return seen
