"""Which calls of a training loop take effect while it runs once per part of a batch.

The script's loop knows nothing of parts: its body clears gradients, runs backward, clips, steps and schedules for each
of them. Gradients may be cleared only where none are pending, and everything that uses or replaces them waits for the
last part. Where a body does these things in another order than that, the parts would not add up to the step that the
script means, and the plan is refused.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, Dict, List, Tuple

from . import loss_reduction
from .context import Context
from .patches import Patches
from .refusal import PlanRefused

# The script calls functions of this file itself.
OF_LEVER = "micro-batch"

_Options = Dict[str, Any]
# Where no label counts, gradients are zero and stay so.
_LEAST_COUNT = 1e-6


class Effects:
    """The state of the batch that is worked on, and the functions that ask it."""

    def __init__(self, context: Context, *, lever: str, may_read: bool) -> None:
        self._context = context
        self._torch = context.torch
        self._lever = lever
        self._may_read = may_read
        self._patches = Patches()
        self._sizes: List[int] = [1]
        self._part = 0
        self._open = False
        # Gradients of this batch wait for their step.
        self._pending = False
        self._backwards = 0
        self._stepped: List[int] = []
        self._in_scaler = False
        self._first = True
        self._options: Dict[int, List[_Options]] = {}
        self._gradients: List[Tuple[Any, Any, int]] = []
        # Sum of the counts so far, and the count that the weights were divided by.
        self._counted: Any = None
        self._reference: Any = None

    # What the loop over data tells.

    def begin(self, sizes: List[int]) -> None:
        """A batch begins, in parts of these sizes."""
        self._sizes, self._part, self._open = sizes, 0, True
        self._pending, self._counted, self._reference = False, None, None
        self._options.clear()
        self._begin_part()

    def part_ended(self) -> None:
        """The body has run for a part."""
        if not self._open:
            return
        if self._first and not self._backwards and len(self._sizes) > 1:
            self._refuse("the body of the loop over data runs no backward pass")
        if self._backwards and not self._stepped and len(self._sizes) > 1:
            self._refuse(
                "the script steps its optimizer once in several batches; a smaller batch and more of them do the same"
            )
        if self._part + 1 < len(self._sizes):
            self._refuse_changed()
            self._part += 1
            self._begin_part()
        else:
            self._first = self._first and not self._backwards
            self.end()

    def end(self) -> None:
        """No batch is worked on."""
        self._open, self._sizes, self._part, self._pending = False, [1], 0, False
        self._gradients = []

    def _begin_part(self) -> None:
        self._backwards = 0
        self._stepped = []

    @property
    def inside(self) -> bool:
        """Whether a batch is worked on."""
        return self._open

    @property
    def _last(self) -> bool:
        return self._part + 1 == len(self._sizes)

    @property
    def _waits(self) -> bool:
        return self._open and not self._last

    # What the body calls.

    def watch(self) -> Callable[[], None]:
        """Puts the functions in place; returns what removes them."""
        torch, patches = self._torch, self._patches
        patches.wrap(torch.autograd, "backward", self._backward)
        patches.wrap(torch.optim.Optimizer, "zero_grad", self._clears)
        patches.wrap(torch.nn.Module, "zero_grad", self._clears)
        for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_"):
            for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
                patches.everywhere(owner, name, self._clips)
        scaler = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler
        patches.wrap(scaler, "unscale_", self._uses)
        patches.wrap(scaler, "update", self._at_last)
        patches.wrap(scaler, "step", self._scaler_step)
        patches.wrap(torch.optim.swa_utils.AveragedModel, "update_parameters", self._at_last)
        for kind in _all_subclasses(torch.optim.lr_scheduler.LRScheduler):
            if "step" in vars(kind):
                patches.wrap(kind, "step", self._at_last)
        patches.later(self._context.each_optimizer(self._gate))
        return patches.undo

    def _gate(self, optimizer: Any) -> None:
        # Schedulers keep the optimizer's `step` as they find it, so it must be one that has a function of its own.
        def make(original: Any) -> Any:
            @functools.wraps(original)
            def step(_optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                closure = args[0] if args else kwargs.get("closure")
                if closure is not None:
                    if self._open and len(self._sizes) > 1:
                        self._refuse("the optimizer computes the loss itself, in a closure")
                    return original(*args, **kwargs)
                if not self._in_scaler:
                    self._steps(optimizer)
                if self._waits:
                    return None
                self._settle()
                result = original()
                self._pending = False
                return result

            return types.MethodType(step, optimizer)

        self._patches.wrap(optimizer, "step", make)

    def _backward(self, function: Any) -> Any:
        @functools.wraps(function)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            if not self._open or len(self._sizes) == 1:
                self._pending = self._pending or self._open
                self._backwards += 1
                return function(tensors, grad_tensors, *args, **kwargs)
            if self._stepped:
                self._refuse("the script goes on with backward passes after a step of its optimizer in the same batch")
            self._refuse_changed()
            grad_tensors = self._weights(tensors, grad_tensors)
            self._backwards += 1
            self._pending = True
            result = function(tensors, grad_tensors, *args, **kwargs)
            if self._first and self._waits:
                self._gradients = self._gradients_now()
            return result

        return backward

    def _weights(self, tensors: Any, given: Any) -> List[Any]:
        losses = [tensors] if isinstance(tensors, self._torch.Tensor) else list(tensors)
        factors = [given] if isinstance(given, self._torch.Tensor) else list(given or [None] * len(losses))
        weighed = []
        for loss, factor in zip(losses, factors):
            if loss.numel() != 1:
                self._refuse("backward begins at a tensor that is no single loss")
            try:
                weight = self._weight(loss)
            except PlanRefused as error:
                self._refuse(error.reason)
                weight = 1.0
            one = self._torch.ones_like(loss) if factor is None else factor
            weighed.append(one * weight)
        return weighed

    def _weight(self, loss: Any) -> Any:
        size, total = self._sizes[self._part], sum(self._sizes)
        reduction = loss_reduction.of(loss, samples=size, may_read=self._may_read, model=self._context.model)
        if reduction.count is None:
            if self._counted is not None:
                raise PlanRefused("the losses of one batch are means over different numbers of labels")
            return size / total
        if self._backwards:
            raise PlanRefused("several losses of one batch are means over labels")
        count = reduction.count.total.detach().to(loss.device, self._torch.float32)
        if self._reference is None:
            if self._part:
                raise PlanRefused("the losses of one batch are means over different numbers of labels")
            # What all parts will count is only known after the last; until then, as if each counted like the first.
            self._reference = count.clamp(min=1.0) * (total / size)
            self._counted = count
        else:
            self._counted = self._counted + count
        return (count / self._reference).to(loss.dtype)

    def _settle(self) -> None:
        """Divides the gradients by what was really counted."""
        if self._counted is None or not self._pending:
            return
        factor = self._reference / self._counted.clamp(min=_LEAST_COUNT)
        self._counted = self._reference = None
        together: Dict[Any, List[Any]] = {}
        for parameter in self._parameters():
            if parameter.grad is not None:
                together.setdefault((parameter.grad.device, parameter.grad.dtype), []).append(parameter.grad)
        with self._torch.no_grad():
            for (device, _), gradients in together.items():
                self._torch._foreach_mul_(gradients, factor.to(device))

    def _steps(self, optimizer: Any) -> None:
        if not self._open or len(self._sizes) == 1:
            self._stepped.append(id(optimizer))
            return
        if id(optimizer) in self._stepped:
            self._refuse("the script steps an optimizer twice in one batch")
        self._stepped.append(id(optimizer))
        options = [{key: group[key] for key in group if key != "params"} for group in optimizer.param_groups]
        before = self._options.setdefault(id(optimizer), options)
        if not _same(before, options):
            self._refuse("the script changes its optimizer's options itself from batch to batch")

    def _scaler_step(self, function: Any) -> Any:
        @functools.wraps(function)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self._steps(optimizer)
            if self._waits:
                return None
            self._settle()
            self._in_scaler = True
            try:
                return function(scaler, optimizer, *args, **kwargs)
            finally:
                self._in_scaler = False
                self._pending = False

        return step

    def _uses(self, function: Any) -> Any:
        @functools.wraps(function)
        def use(*args: Any, **kwargs: Any) -> Any:
            if self._waits:
                return None
            self._settle()
            return function(*args, **kwargs)

        return use

    def _clips(self, function: Any) -> Any:
        @functools.wraps(function)
        def clip(*args: Any, **kwargs: Any) -> Any:
            if self._waits:
                # Scripts print the norm.
                return self._torch.zeros(())
            self._settle()
            return function(*args, **kwargs)

        return clip

    def _clears(self, function: Any) -> Any:
        @functools.wraps(function)
        def clear(*args: Any, **kwargs: Any) -> Any:
            return None if self._open and self._pending else function(*args, **kwargs)

        return clear

    def _at_last(self, function: Any) -> Any:
        @functools.wraps(function)
        def at_last(*args: Any, **kwargs: Any) -> Any:
            return None if self._waits else function(*args, **kwargs)

        return at_last

    def _parameters(self) -> List[Any]:
        found = {}
        for optimizer in self._context.optimizers():
            for group in optimizer.param_groups:
                found.update({id(parameter): parameter for parameter in group["params"]})
        return list(found.values())

    def _gradients_now(self) -> List[Tuple[Any, Any, int]]:
        parameters = [entry for entry in self._parameters() if entry.grad is not None]
        return [(entry, entry.grad, entry.grad._version) for entry in parameters]

    def _refuse_changed(self) -> None:
        for parameter, gradient, version in self._gradients:
            if parameter.grad is not gradient or gradient._version != version:
                self._gradients = []
                self._refuse("the script changes or clears gradients itself")
                return

    def _refuse(self, reason: str) -> None:
        self._context.refuse(reason, lever=self._lever)


def _same(before: List[_Options], now: List[_Options]) -> bool:
    if len(before) != len(now):
        return False
    for one, other in zip(before, now):
        for key, value in other.items():
            if key in one and one[key] is not value and not _equal(one[key], value):
                return False
    return True


def _equal(one: Any, other: Any) -> bool:
    # An option that is a tensor may lie on the device; it is the same one as long as it is the same object.
    return not hasattr(one, "device") and bool(one == other)


def _all_subclasses(kind: Any) -> List[Any]:
    found, waiting = [], [kind]
    while waiting:
        each: Any = waiting.pop()
        if each not in found:
            found.append(each)
            waiting.extend(each.__subclasses__())
    return found
