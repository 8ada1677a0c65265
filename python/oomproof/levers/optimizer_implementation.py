"""How the optimizer's step is carried out: all tensors at once, one after another, or in one kernel each.

On a GPU the default works on lists of all tensors and needs temporaries as large as the parameters. The choice is only
read when a step begins, so it can be changed on an optimizer that exists, before its first step.
"""

from __future__ import annotations

import inspect
from typing import Any, Optional

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known, one_of
from .patches import Patches

NAME = "optimizer-implementation"
MOMENT = Moment.START

_CHOICES = ("fused", "forloop", "foreach")


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "implementation")
    one_of(parameters, "implementation", _CHOICES, default="fused")
    for optimizer in context.optimizers():
        reason = _lacks(optimizer, _wanted(parameters))
        if reason is not None:
            return reason
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    patches = Patches()
    wanted = _wanted(parameters)

    def meet(optimizer: Any) -> None:
        switched = False

        def before_step(*_: Any) -> None:
            # The hook stays: PyTorch walks over the hooks meanwhile, and ends when one of several goes.
            nonlocal switched
            if switched:
                return
            switched = True
            reason = _lacks(optimizer, wanted)
            if reason is not None:
                context.refuse(reason, lever=NAME)
            else:
                _switch(patches, optimizer, wanted)

        # Parameters may still move to the device, and groups be added, until the first step.
        handle = optimizer.register_step_pre_hook(before_step)
        patches.later(handle.remove)

    patches.later(context.each_optimizer(meet))
    return patches.undo


def _wanted(parameters: Parameters) -> str:
    return one_of(parameters, "implementation", _CHOICES, default="fused")


def _lacks(optimizer: Any, wanted: str) -> Optional[str]:
    kind = type(optimizer).__name__
    options = inspect.signature(type(optimizer).__init__).parameters
    option = "fused" if wanted == "fused" else "foreach"
    if option not in options or option not in optimizer.defaults:
        return f"`{kind}` has no option `{option}`"
    if optimizer.defaults.get("differentiable"):
        return f"`{kind}` is differentiable, which only its own implementation is"
    if wanted == "fused":
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if not parameter.is_floating_point():
                    return f"`{kind}` has parameters of {parameter.dtype}, which no fused kernel takes"
    return None


def _switch(patches: Patches, optimizer: Any, wanted: str) -> None:
    chosen = {"foreach": wanted == "foreach", "fused": wanted == "fused"}
    for options in (optimizer.defaults, *optimizer.param_groups):
        for name, value in chosen.items():
            if name in options or name in optimizer.defaults:
                patches.item(options, name, value)
    if wanted == "fused":
        # As the constructor does when it is asked for the fused kernels.
        patches.attribute(optimizer, "_step_supports_amp_scaling", True)
        if hasattr(optimizer, "_need_device_dtype_check_for_fused") or "fused" in chosen:
            patches.attribute(optimizer, "_need_device_dtype_check_for_fused", True)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            _move_count(optimizer.state.get(parameter), parameter, group, on_device=wanted == "fused")


def _move_count(state: Any, parameter: Any, group: Any, *, on_device: bool) -> None:
    """The count of steps lies on the device for fused kernels, and on the host for the others."""
    count = state.get("step") if isinstance(state, dict) else None
    if count is None or not hasattr(count, "device"):
        return
    if on_device:
        state["step"] = count.to(parameter.device)
    elif not group.get("capturable"):
        state["step"] = count.to("cpu")
