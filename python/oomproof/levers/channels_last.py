"""Images, and the weights of convolutions, with their channels last, as the fast convolutions take them."""

from __future__ import annotations

import functools
from typing import Any, Optional

from . import trees
from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "channels-last"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters)
    if not any(isinstance(module, context.torch.nn.Conv2d) for module in context.root().modules()):
        return "the model has no convolution over images"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches, root = context.torch, Patches(), context.root()
    weights = [entry for entry in root.parameters() if entry.dim() == 4]

    def arrange(form: Any) -> None:
        for weight in weights:
            weight.data = weight.data.contiguous(memory_format=form)

    arrange(torch.channels_last)
    patches.later(lambda: arrange(torch.contiguous_format))
    original = root.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = trees.mapped(torch, (args, kwargs), _channels_last(torch))
        return original(*args, **kwargs)

    patches.attribute(root, "forward", forward)
    return patches.undo


def _channels_last(torch: Any) -> Any:
    return lambda tensor: tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
