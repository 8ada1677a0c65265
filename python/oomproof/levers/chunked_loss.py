"""The last linear layer and cross entropy together, in pieces of rows.

Scores over a large vocabulary are the largest tensor of many models, and the loss makes two more of their size. The
layer therefore gives a stand-in for its scores (`lazy_scores.py`), and only the loss, which asks for it, computes them
piece by piece. Whatever else the script does with the scores needs them all, and is refused by its name.
"""

from __future__ import annotations

import functools
from typing import Any, Optional, Tuple

from . import lazy_scores
from .context import Context, Moment
from .lever import Undo, refused_by
from .parameters import Parameters, count, known
from .patches import Patches
from .refusal import PlanRefused

NAME = "chunked-loss"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "chunks", "linear")
    count(parameters, "chunks", least=2)
    return refused_by(lambda: _layer(context, parameters))


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches = context.torch, Patches()
    chunks = count(parameters, "chunks", least=2)
    path, layer = _layer(context, parameters)
    root, original = context.root(), layer.forward

    def refuse(reason: str) -> None:
        context.refuse(reason, lever=NAME)

    @functools.wraps(original)
    def forward(hidden: Any) -> Any:
        wanted = torch.is_grad_enabled() and root.training
        if not wanted or not (hidden.requires_grad or layer.weight.requires_grad):
            return original(hidden)
        return lazy_scores.make(torch, hidden, layer.weight, layer.bias, chunks=chunks, path=path, refuse=refuse)

    patches.attribute(layer, "forward", forward)
    return patches.undo


def _layer(context: Context, parameters: Parameters) -> Tuple[str, Any]:
    """The linear layer that makes the scores: the one that is named, that the model names, or its last."""
    torch, root = context.torch, context.root()
    for module in root.modules():
        if "FullyShardedDataParallel" in type(module).__name__ or hasattr(module, "_get_fsdp_state"):
            raise PlanRefused("parameters are sharded, and those of the layer are not there when the loss is computed")
    path = parameters.get("linear")
    if path is not None:
        layer = context.module(str(path))
    else:
        named = getattr(getattr(root, "module", root), "get_output_embeddings", None)
        layer = named() if named is not None else None
        if layer is None:
            layer = next((module for module in reversed(list(root.modules())) if type(module) is torch.nn.Linear), None)
    if layer is None or type(layer) is not torch.nn.Linear:
        found = "none" if layer is None else f"a `{type(layer).__name__}`"
        raise PlanRefused(f"the scores come from a linear layer, and there is {found}")
    return next((name for name, module in root.named_modules() if module is layer), ""), layer
