"""An optimizer with a smaller state in place of Adam: moments in eight bits, or as sums of rows and columns.

Schedulers, and loops, hold the optimizer itself, so the object stays and becomes one of the other class, before it has
any state. It trains otherwise than the one that was chosen.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Optional, Tuple

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known, one_of
from .patches import Patches

NAME = "optimizer-state"
MOMENT = Moment.MODEL

_CHOICES = ("8bit", "factored")
_ADAMS = ("Adam", "AdamW")
# Packages with moments in eight bits, the first that is there is taken: module and prefix of nothing but the class.
_EIGHT_BIT = ("bitsandbytes.optim", "torchao.optim")
_KEPT = ("params", "lr", "weight_decay", "initial_lr")
# What means the same for moments in eight bits, and something else for factored ones.
_KEPT_OF_MOMENTS = ("betas", "eps")
# What is not the same in all such classes.
_NOT_DONE = ("amsgrad", "maximize", "differentiable", "capturable")


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "kind")
    kind = one_of(parameters, "kind", _CHOICES, default="8bit")
    for optimizer in context.optimizers():
        reason = _reason(context, optimizer, kind)
        if reason is not None:
            return reason
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    patches = Patches()
    kind = one_of(parameters, "kind", _CHOICES, default="8bit")

    becoming = False

    def meet(optimizer: Any) -> None:
        nonlocal becoming
        if becoming:
            return

        checked = False

        def before_step(*_: Any) -> None:
            nonlocal checked
            if checked:
                return
            checked = True
            reason = _reason(context, optimizer, kind)
            if reason is not None:
                context.refuse(reason, lever=NAME)

        if type(optimizer).__name__ in _ADAMS and _reason(context, optimizer, kind) is None:
            becoming = True
            kept = _KEPT + _KEPT_OF_MOMENTS if kind == "8bit" else _KEPT
            _become(optimizer, _class(context, optimizer, kind)[0], kept, patches)
            becoming = False
        else:
            handle = optimizer.register_step_pre_hook(before_step)
            patches.later(handle.remove)

    patches.later(context.each_optimizer(meet))
    return patches.undo


def _reason(context: Context, optimizer: Any, kind: str) -> Optional[str]:
    name = type(optimizer).__name__
    if name not in _ADAMS:
        return f"`{name}` is no Adam, whose state could be made smaller"
    if optimizer.state:
        return "the optimizer has stepped already"
    for option in _NOT_DONE:
        if any(group.get(option) for group in optimizer.param_groups):
            return f"`{option}` of the optimizer is not carried over to a smaller state"
    return _class(context, optimizer, kind)[1]


def _class(context: Context, optimizer: Any, kind: str) -> Tuple[Any, Optional[str]]:
    """The class to become, or why there is none."""
    if kind == "factored":
        found = getattr(context.torch.optim, "Adafactor", None)
        return found, None if found is not None else "`torch.optim.Adafactor` came with torch 2.5"
    for module in _EIGHT_BIT:
        try:
            found = getattr(importlib.import_module(module), f"{type(optimizer).__name__}8bit", None)
        except ImportError:
            continue
        if found is not None:
            return found, None
    return None, "neither `bitsandbytes` nor `torchao` is installed"


def _become(optimizer: Any, kind: Any, kept: Tuple[str, ...], patches: Patches) -> None:
    groups = [{key: group[key] for key in kept if key in group} for group in optimizer.param_groups]
    other = kind(groups)
    before_class, before = type(optimizer), dict(vars(optimizer))

    def back() -> None:
        optimizer.__class__ = before_class
        vars(optimizer).clear()
        vars(optimizer).update(before)

    patches.later(back)
    stepped = "step" in before
    vars(optimizer).update(vars(other))
    optimizer.__class__ = kind
    if stepped:
        # A scheduler keeps the step that it found, which is that of the former class.
        _wrapped_again(optimizer, kind, before["step"])


def _wrapped_again(optimizer: Any, kind: Any, former: Any) -> None:
    @functools.wraps(former)
    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer._opt_called = True
        return kind.step(optimizer, *args, **kwargs)

    optimizer.step = step
