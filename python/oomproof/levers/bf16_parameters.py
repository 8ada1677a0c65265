"""Parameters, and with them gradients and the optimizer's state, in bfloat16.

The parameters stay the objects that the optimizer holds. Updates that are small beside a parameter vanish, unless the
optimizer rounds at random, which torch's own do not.
"""

from __future__ import annotations

import functools
from typing import Any, Optional

from . import trees
from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "bf16-parameters"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters)
    if not any(entry.dtype is context.torch.float32 for entry in context.root().parameters()):
        return "no parameter has 32 bits"
    if any(optimizer.state for optimizer in context.optimizers()):
        return "the optimizer has stepped already, and its state has 32 bits"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches, root = context.torch, Patches(), context.root()
    wide = [entry for entry in (*root.parameters(), *root.buffers()) if entry.dtype is torch.float32]
    for entry in wide:
        entry.data = entry.data.bfloat16()
        # A gradient that is there has the type of before.
        entry.grad = None

    def back() -> None:
        for entry in wide:
            entry.grad = None
            entry.data = entry.data.float()

    patches.later(back)
    original = root.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = trees.mapped(torch, (args, kwargs), _narrow(torch))
        return trees.mapped(torch, original(*args, **kwargs), _wide(torch))

    patches.attribute(root, "forward", forward)
    return patches.undo


def _narrow(torch: Any) -> Any:
    return lambda tensor: tensor.bfloat16() if tensor.dtype is torch.float32 else tensor


def _wide(torch: Any) -> Any:
    return lambda tensor: tensor.float() if tensor.dtype is torch.bfloat16 else tensor
