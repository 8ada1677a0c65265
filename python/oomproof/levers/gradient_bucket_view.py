"""Gradients of distributed training as views of the buckets that are sent, instead of copies of them.

The choice is made when the model is wrapped, so a model that is wrapped already cannot be changed.
"""

from __future__ import annotations

import functools
from typing import Any, Optional

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "gradient-bucket-view"
MOMENT = Moment.START


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters)
    if not context.torch.distributed.is_available():
        return "this torch is built without distributed training"
    if context.model is None:
        return None
    wrapped = [entry for entry in context.model.modules() if isinstance(entry, _kind(context))]
    if any(not entry.gradient_as_bucket_view for entry in wrapped):
        return "the model is wrapped already; give `DistributedDataParallel` the option `gradient_as_bucket_view`"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    patches = Patches()

    def make(function: Any) -> Any:
        @functools.wraps(function)
        def init(wrapper: Any, *args: Any, **kwargs: Any) -> None:
            function(wrapper, *args, **{**kwargs, "gradient_as_bucket_view": True})

        return init

    patches.wrap(_kind(context), "__init__", make)
    return patches.undo


def _kind(context: Context) -> Any:
    return context.torch.nn.parallel.DistributedDataParallel
