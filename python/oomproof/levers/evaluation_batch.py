"""Evaluation in smaller batches: the model goes through a batch slice by slice, and the script gets one result.

What the script counts and averages per batch stays as it is, because the loader's batches do.
"""

from __future__ import annotations

import functools
from typing import Any, List, Optional

from . import slices
from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, count, known
from .patches import Patches
from .refusal import PlanRefused

NAME = "evaluation-batch"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "size")
    count(parameters, "size", least=1)
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches, root = context.torch, Patches(), context.root()
    size = count(parameters, "size", least=1)
    original = root.forward

    def sliced(call: slices.Call, total: int) -> Any:
        sizes = slices.sizes(total, -(-total // size))
        results = [original(*args, **kwargs) for args, kwargs in slices.cut(torch, call, sizes)]
        return slices.joined(torch, results, sizes, _refuse)

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        total = slices.rows(torch, (args, kwargs))
        if root.training or torch.is_grad_enabled() or total is None or total <= size:
            return original(*args, **kwargs)
        try:
            return sliced((args, kwargs), total)
        except PlanRefused as error:
            context.refuse(error.reason, lever=NAME)
            return original(*args, **kwargs)

    patches.attribute(root, "forward", forward)
    return patches.undo


def _refuse(_: List[Any]) -> Any:
    raise PlanRefused("the model computes a loss in evaluation, whose parts cannot be weighed without its graph")
