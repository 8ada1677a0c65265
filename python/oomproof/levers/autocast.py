"""Matrix products in 16 bits, by autocast around the outermost `forward`.

What leaves the model is cast back, so that a loss that is computed outside is computed in 32 bits, as it would be
inside the region. In `float16` small gradients vanish unless the loss is scaled, so a scaler has to be at work.
"""

from __future__ import annotations

import functools
from typing import Any, Optional

from . import trees
from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known, one_of
from .patches import Patches

NAME = "autocast"
MOMENT = Moment.MODEL

_CHOICES = ("bfloat16", "float16")


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "dtype")
    one_of(parameters, "dtype", _CHOICES, default="bfloat16")
    torch = context.torch
    if torch.is_autocast_enabled(_device(context)):
        return "the script uses autocast already"
    low = sum(1 for entry in context.root().parameters() if entry.dtype in (torch.float16, torch.bfloat16))
    if low:
        return "the model has parameters of 16 bits already"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches, root = context.torch, Patches(), context.root()
    name = one_of(parameters, "dtype", _CHOICES, default="bfloat16")
    kind, dtype = _device(context), getattr(torch, name)
    original = root.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(kind, dtype=dtype):
            result = original(*args, **kwargs)
        return _as_float(torch, result)

    patches.attribute(root, "forward", forward)
    if name == "float16":
        _require_scaler(context, patches)
    return patches.undo


def _require_scaler(context: Context, patches: Patches) -> None:
    torch = context.torch
    scaled = False

    def wrap(function: Any) -> Any:
        @functools.wraps(function)
        def scale(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal scaled
            scaled = scaled or scaler.is_enabled()
            return function(scaler, *args, **kwargs)

        return scale

    def meet(optimizer: Any) -> None:
        checked = False

        def before_step(*_: Any) -> None:
            nonlocal checked
            if not (checked or scaled):
                context.refuse("`float16` needs a `GradScaler`, and the script has none at work", lever=NAME)
            checked = True

        handle = optimizer.register_step_pre_hook(before_step)
        patches.later(handle.remove)

    patches.wrap(torch.amp.GradScaler, "scale", wrap)
    patches.later(context.each_optimizer(meet))


def _device(context: Context) -> str:
    return next((str(entry.device.type) for entry in context.root().parameters()), "cuda")


def _as_float(torch: Any, value: Any) -> Any:
    low = (torch.float16, torch.bfloat16)
    return trees.mapped(torch, value, lambda tensor: tensor.float() if tensor.dtype in low else tensor)
