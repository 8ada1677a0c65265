"""Each parameter is updated as soon as its gradient is complete, which is then freed.

The script's optimizer does it, with its groups narrowed to the one parameter for the moment, so that its options, its
state and what schedulers set stay where they are. Whatever needs all gradients at once, or several passes before a
step, is refused.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Set

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "optimizer-in-backward"
MOMENT = Moment.MODEL

_TOGETHER = ("LBFGS",)


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters)
    for module in context.root().modules():
        if type(module).__name__ in ("DistributedDataParallel", "FullyShardedDataParallel"):
            return "gradients are only complete when all ranks have exchanged them"
    for optimizer in context.optimizers():
        reason = _reason(optimizer)
        if reason is not None:
            return reason
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches = context.torch, Patches()

    def refuse(reason: str) -> None:
        context.refuse(reason, lever=NAME)

    for name in ("clip_grad_norm_", "clip_grad_value_"):
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            patches.everywhere(owner, name, lambda function: _refusing(function, refuse, "the script clips gradients"))
    for name in ("unscale_", "step"):
        patches.wrap(torch.amp.GradScaler, name, lambda function: _scaler(function, refuse))

    def meet(optimizer: Any) -> None:
        reason = _reason(optimizer)
        if reason is not None:
            refuse(reason)
            return
        _Stepping(optimizer, refuse).watch(patches)

    patches.later(context.each_optimizer(meet))
    return patches.undo


class _Stepping:
    """One optimizer."""

    def __init__(self, optimizer: Any, refuse: Callable[[str], None]) -> None:
        self._optimizer = optimizer
        self._refuse = refuse
        self._stepped: Set[int] = set()

    def watch(self, patches: Patches) -> None:
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    hook = functools.partial(self._complete, group=group)
                    patches.later(parameter.register_post_accumulate_grad_hook(hook).remove)
        patches.later(self._optimizer.register_step_post_hook(lambda *_: self._stepped.clear()).remove)

    def _complete(self, parameter: Any, *, group: Any) -> None:
        if id(parameter) in self._stepped:
            self._refuse("gradients are added up over several backward passes")
        self._stepped.add(id(parameter))
        optimizer = self._optimizer
        # The hooks around a step are for the step that the script takes.
        step = type(optimizer).step
        step = getattr(step, "__wrapped__", step) if getattr(step, "hooked", False) else step
        groups = optimizer.param_groups
        optimizer.param_groups = [{**group, "params": [parameter]}]
        try:
            step(optimizer)
        finally:
            optimizer.param_groups = groups
        parameter.grad = None


def _reason(optimizer: Any) -> Optional[str]:
    kind = type(optimizer).__name__
    return f"`{kind}` steps with all parameters together" if kind in _TOGETHER else None


def _refusing(function: Any, refuse: Callable[[str], None], reason: str) -> Any:
    @functools.wraps(function)
    def refused(*args: Any, **kwargs: Any) -> Any:
        refuse(reason)
        return function(*args, **kwargs)

    return refused


def _scaler(function: Any, refuse: Callable[[str], None]) -> Any:
    @functools.wraps(function)
    def refused(scaler: Any, *args: Any, **kwargs: Any) -> Any:
        if scaler.is_enabled():
            refuse("a `GradScaler` looks at all gradients before the step")
        return function(scaler, *args, **kwargs)

    return refused
