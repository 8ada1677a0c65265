"""An evaluation keeps nothing for a backward pass that never comes.

The model is trained in the mode that `train()` sets; a call of it in the mode that `eval()` sets then evaluates, even
where the script forgot to say so. A script that trains in that mode never gives the first call that this waits for.
"""

from __future__ import annotations

import functools
from typing import Any, Optional

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "inference-evaluation"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters)
    return None if context.root().training else "the model is in the mode of evaluation when it trains"


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches, root = context.torch, Patches(), context.root()
    original = root.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if root.training or not torch.is_grad_enabled():
            return original(*args, **kwargs)
        with torch.no_grad():
            return original(*args, **kwargs)

    patches.attribute(root, "forward", forward)
    return patches.undo
