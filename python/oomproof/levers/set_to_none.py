"""Gradients are freed between steps, and not filled with zeros.

A gradient of zeros still decays a parameter and its moments, where one that is missing leaves both alone. That is the
same as long as every parameter gets a gradient in every step, so a step that lacks one is refused.
"""

from __future__ import annotations

import functools
from typing import Any, Optional, Set

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "set-to-none"
MOMENT = Moment.START


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters)
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches = context.torch, Patches()
    patches.wrap(torch.optim.Optimizer, "zero_grad", _freeing)
    patches.wrap(torch.nn.Module, "zero_grad", _freeing)

    def meet(optimizer: Any) -> None:
        had: Set[int] = set()

        def before_step(*_: Any) -> None:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        had.add(id(parameter))
                    elif id(parameter) in had:
                        reason = "a parameter has a gradient in some steps only, and zeros would still have changed it"
                        context.refuse(reason, lever=NAME)

        patches.later(optimizer.register_step_pre_hook(before_step).remove)

    patches.later(context.each_optimizer(meet))
    return patches.undo


def _freeing(function: Any) -> Any:
    @functools.wraps(function)
    def zero_grad(owner: Any, set_to_none: bool = True) -> Any:
        return function(owner, set_to_none=True)

    return zero_grad
