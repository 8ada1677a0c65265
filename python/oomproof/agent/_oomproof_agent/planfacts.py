"""What plans are made from: a note about a training step, and once more at the end where evaluation came after it.

It is measured in the second step, when the optimizer's state exists and first-time allocations are over, by the
hooks that a run has anyway and by counters. Nothing here holds a tensor or allocates one, so the peak is that of a run
without it, which a test compares.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional

from . import scriptfacts
from .blocks import Blocks, normalizes_over_batch
from .device import Device
from .draws import Draws
from .evaluation import Evaluation
from .intervals import Interval, Intervals
from .names import BACKWARD
from .phases import Phases
from .steps import Steps

_STEP = 2
_POINTS = ("backward_start", "forward_peak", "loss_peak", "optimizer_peak", "evaluation_peak", "step_peak")


class PlanFacts:
    """Watches training steps, and writes the note after the second."""

    def __init__(self, device: Device, phases: Phases, steps: Steps, torch: Any) -> None:
        self._device = device
        self._phases = phases
        self._steps = steps
        self._torch = torch
        self._intervals = Intervals(device, torch)
        self._blocks = Blocks(device, phases, self._intervals, torch)
        self._evaluation = Evaluation(phases, self._intervals, torch, functools.partial(_rows, torch))
        self._told: Dict[str, Any] = {}
        self._evaluated: Optional[Dict[str, Any]] = None
        self._handles: List[Any] = []
        self._depth = 0
        self._root: Optional[Any] = None
        self._callers = scriptfacts.Callers()
        self._loader: Optional[Dict[str, Any]] = None
        self._seen: Dict[str, Any] = {"clips": False, "scaler": False}
        self._rates: List[List[Any]] = []
        self._step: Dict[str, Any] = {}
        self._loss_interval: Optional[Interval] = None
        self._forward_draws = Draws(torch)
        self._loop_draws = Draws(torch)
        self._done = False
        self._backwards = 0
        self._time = 0

    def watch(self, imports: Any) -> None:
        from torch.nn.modules import module

        torch = self._torch
        # Before those of training, whose stretch of time begins where that of evaluation ends.
        self._evaluation.watch()
        self._handles = [
            module.register_module_forward_pre_hook(self._before),
            module.register_module_forward_hook(self._after, always_call=True),
        ]
        torch.autograd.backward = self._wrap(torch.autograd.backward, self._backward_begins)
        functional = torch.nn.functional
        functional.cross_entropy = self._wrap_loss(functional.cross_entropy)
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                setattr(owner, name, self._wrap(getattr(owner, name), lambda: self._seen.update(clips=True)))
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            owner.zero_grad = self._wrap_clearing(owner.zero_grad)
        scaler = torch.amp.GradScaler
        scaler.unscale_ = self._wrap(scaler.unscale_, lambda: self._seen.update(scaler=True))
        scaler.step = self._wrap(scaler.step, lambda: self._seen.update(scaler=True))
        imports.when_loaded("torch.utils.data.dataloader", self._watch_loaders)

    def _wrap_clearing(self, function: Any) -> Any:
        """Whether gradients are freed is what was asked for: a loop may clear them only after its next forward."""

        @functools.wraps(function)
        def zero_grad(owner: Any, *args: Any, **kwargs: Any) -> Any:
            asked = args[0] if args else kwargs.get("set_to_none", True)
            self._seen["set_to_none"] = bool(asked)
            return function(owner, *args, **kwargs)

        return zero_grad

    def step_aside(self) -> None:
        """The script compiles: modules can no longer be watched, and what they take is not known."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        self._evaluation.leave()
        self._blocks.restart()
        self._depth = 0

    def leave(self) -> None:
        """Nobody asks for the note any more."""
        self._done = True
        self._told = {}
        self.step_aside()

    # Moments of a step.

    def _before(self, module: Any, args: Any) -> None:
        if self._done or self._phases.current == BACKWARD or not self._torch.is_grad_enabled():
            return
        if self._depth == 0:
            if not module.training:
                return
            self._forward_begins(module, args)
        self._depth += 1
        self._blocks.before(module, args)

    def _after(self, module: Any, _args: Any, result: Any) -> None:
        if self._done or self._depth == 0 or self._phases.current == BACKWARD:
            return
        self._depth -= 1
        self._blocks.after(module, result)
        if self._depth == 0:
            self._forward_ended(module, result)

    def _forward_begins(self, module: Any, args: Any) -> None:
        count = sum(int(entry.numel()) for entry in module.parameters())
        if count == 0:
            return
        known = self._step.get("root_parameters", -1)
        if count < known:
            return
        if count > known or "forward" not in self._step:
            self._step["set_to_none"] = scriptfacts.lacks_gradients(module)
        self._root = module
        self._blocks.restart()
        self._intervals.clear()
        self._intervals.mark()
        self._step["root_parameters"] = count
        self._step["forward"] = self._intervals.begin()
        self._step["rows"] = _rows(self._torch, args)
        self._step["autocast"] = _autocast(self._torch)
        self._forward_draws.begin()

    def _forward_ended(self, module: Any, result: Any) -> None:
        if module is not self._root or "forward" not in self._step:
            return
        self._forward_draws.end()
        self._intervals.mark()
        self._step["forward_peak"] = self._step["forward"].peak
        self._step["loss_inside"] = _has_loss(self._torch, result)

    def _backward_begins(self) -> None:
        if self._done:
            return
        self._intervals.mark()
        allocated = self._intervals.allocated()
        self._step["backward_start"] = max(allocated, self._step.get("backward_start", 0))

    def optimizer_begins(self, optimizer: Any) -> None:
        if self._done:
            return
        self._callers.look()
        self._rates.append([group.get("lr") for group in optimizer.param_groups])
        self._step["optimizer"] = self._intervals.begin()

    def optimizer_ended(self) -> None:
        interval = self._step.get("optimizer")
        if self._done or interval is None:
            return
        self._intervals.end(interval)
        self._step["optimizer_peak"] = max(interval.peak, self._step.get("optimizer_peak", 0))

    def step_ended(self, step: int) -> None:
        if self._done:
            return
        self._loop_draws.end()
        self._intervals.mark()
        self._step["step_peak"], self._intervals.highest = self._intervals.highest, 0
        backwards, self._backwards = self._steps.backwards - self._backwards, self._steps.backwards
        time, self._time = self._intervals.time() - self._time, self._intervals.time()
        if step >= _STEP:
            self.tell(micro_batches=backwards, step_ns=time)
        self._step = {"root_parameters": self._step.get("root_parameters", -1)}

    def _wrap_loss(self, function: Any) -> Any:
        @functools.wraps(function)
        def cross_entropy(scores: Any, *args: Any, **kwargs: Any) -> Any:
            if self._done or not getattr(scores, "requires_grad", False) or scores.dim() < 2:
                return function(scores, *args, **kwargs)
            interval = self._intervals.begin()
            result = function(scores, *args, **kwargs)
            self._loss(scores, interval, float(kwargs.get("label_smoothing", 0.0)))
            return result

        return cross_entropy

    def _loss(self, scores: Any, interval: Interval, smoothing: float) -> None:
        classes = int(scores.shape[1])
        rows = int(scores.numel()) // max(1, classes)
        loss: Dict[str, Any] = {
            "kind": "cross_entropy",
            "rows": rows,
            "classes": classes,
            "dtype": str(scores.dtype).replace("torch.", ""),
            "label_smoothing": smoothing,
            "linear": self._linear(classes),
            "bytes_at_peak": None,
        }
        if rows * classes < self._step.get("loss_size", 0):
            return
        self._step["loss_size"] = rows * classes
        self._step["loss"] = loss
        own = int(scores.numel()) * int(scores.element_size())
        begun = interval.before

        def graded(_: Any) -> None:
            # The gradient of the scores exists: the loss is over.
            self._intervals.end(interval)
            self._step["loss_peak"] = interval.peak
            loss["bytes_at_peak"] = interval.peak - begun + own

        scores.register_hook(graded)

    def _linear(self, classes: int) -> Optional[str]:
        for module, features in reversed(self._blocks.linears):
            if features == classes and self._root is not None:
                return next((path for path, part in self._root.named_modules() if part is module), None)
        return None

    def _watch_loaders(self, module: Any) -> None:
        base = module._BaseDataLoaderIter
        original = base.__next__

        @functools.wraps(original)
        def following(iterator: Any) -> Any:
            # What the data set itself draws is drawn once per batch, whatever becomes of the batch.
            if not self._done:
                self._loop_draws.end()
            batch = original(iterator)
            self._evaluation.loader_rows = _rows(self._torch, batch)
            if not self._done and self._torch.is_grad_enabled():
                self._loop_draws.begin()
                self._loader = {"rows": _rows(self._torch, batch), "steps": self._steps.count}
                self._loader["resident"] = _resident(self._torch, getattr(iterator, "_dataset", None))
            return batch

        base.__next__ = following

    @staticmethod
    def _wrap(function: Any, before: Callable[[], None]) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before()
            return function(*args, **kwargs)

        return wrapped

    # The note.

    def conclude(self) -> None:
        """The run ends: evaluation that came after the note is told, or what the first step showed if it was alone."""
        self._evaluation.end()
        if self._told and self._evaluation.of(self._root) != self._evaluated:
            self._note()
        elif not self._done and self._steps.count > 0:
            self.tell(micro_batches=self._steps.backwards or None, step_ns=None)

    def tell(self, *, micro_batches: Optional[int], step_ns: Optional[int]) -> None:
        self._done = True
        root = self._root
        for handle in self._handles:
            handle.remove()
        parameters = list(root.parameters()) if root is not None else []
        blocks, chain = self._blocks.facts(root) if root is not None else ([], None)
        sizes = [_bytes(entry) for entry in parameters]
        loader = self._loader or {}
        # One that gave nothing since the step before began is not where this step has its batch from.
        gives = bool(loader.get("rows")) and loader["steps"] >= self._steps.count - 1
        source = self._callers.source or ("loader" if gives else "forward")
        optimizers = self._steps.optimizers()
        scheduled = any("initial_lr" in group for entry in optimizers for group in entry.param_groups)
        self._told = {
            "parameters": sum(int(entry.numel()) for entry in parameters) if root is not None else None,
            "parameter_bytes": sum(sizes) if root is not None else None,
            "gradient_bytes": sum(_bytes(entry) for entry in parameters if entry.requires_grad) if parameters else None,
            "largest_parameter_bytes": max(sizes, default=None),
            "buffers_bytes": sum(_bytes(entry) for entry in root.buffers()) if root is not None else None,
            "blocks": blocks,
            "chain": chain,
            "batch": (loader.get("rows") if source != "forward" else None) or self._step.get("rows"),
            "batch_source": source,
            "micro_batches": micro_batches,
            "loss_inside": self._step.get("loss_inside"),
            "optimizer": [scriptfacts.optimizer(entry) for entry in optimizers],
            "clips": self._seen["clips"],
            "scaler": self._seen["scaler"],
            "scheduler": scheduled,
            "lr_set_by_hand": len(set(map(str, self._rates))) > 1 and not scheduled,
            "batchnorm": any(normalizes_over_batch(self._torch, entry) for entry in root.modules()) if root else None,
            "forward_draws": self._forward_draws.seen,
            "loop_draws": self._loop_draws.seen,
            "loss": self._step.get("loss"),
            "attention": scriptfacts.attention(root) if root is not None else [],
            "autocast": self._step.get("autocast"),
            "frameworks": self._callers.frameworks,
            "packages": scriptfacts.packages(),
            "set_to_none": self._seen.get("set_to_none", self._step.get("set_to_none")),
            "resident_dataset_bytes": loader.get("resident"),
            "step_ns": step_ns or None,
            "points": self._points(),
        }
        self._note()

    def _note(self) -> None:
        seen = self._evaluated = self._evaluation.of(self._root)
        points = dict(self._told["points"])
        evaluation = None
        if seen is not None:
            evaluation = {name: seen[name] for name in ("grad_enabled", "batch")}
            if self._intervals.known and seen["peak"]:
                points["evaluation_peak"] = {"allocated": seen["peak"]}
        self._device.note(kind="plan_facts", **{**self._told, "evaluation": evaluation, "points": points})

    def _points(self) -> Dict[str, Any]:
        known = {name: self._step.get(name) for name in _POINTS}
        if not self._intervals.known:
            known = dict.fromkeys(known)
        return {name: None if value is None else {"allocated": value} for name, value in known.items()}


def _rows(torch: Any, value: Any) -> Optional[int]:
    if isinstance(value, torch.Tensor):
        return int(value.shape[0]) if value.dim() else None
    parts = value.values() if hasattr(value, "values") else value if isinstance(value, (list, tuple)) else ()
    for part in parts:
        found = _rows(torch, part)
        if found is not None:
            return found
    return None


def _resident(torch: Any, dataset: Any) -> int:
    tensors = getattr(dataset, "tensors", ())
    parts = tensors if isinstance(tensors, (list, tuple)) else ()
    return sum(_bytes(entry) for entry in parts if isinstance(entry, torch.Tensor) and entry.is_cuda)


def _has_loss(torch: Any, result: Any) -> bool:
    if isinstance(result, (list, tuple)):
        result = result[0] if result else None
    elif not isinstance(result, torch.Tensor):
        result = getattr(result, "loss", None)
    return isinstance(result, torch.Tensor) and result.dim() == 0 and bool(result.requires_grad)


def _autocast(torch: Any) -> Optional[str]:
    if not torch.is_autocast_enabled():
        return None
    return str(torch.get_autocast_gpu_dtype()).replace("torch.", "")


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())
