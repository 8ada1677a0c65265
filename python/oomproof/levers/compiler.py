"""`torch.compile` of the model's `forward`, with a budget for what it keeps.

The compiler's budget is a share of the activations and no cap on memory, so what it brings is only known from a run.
"""

from __future__ import annotations

from typing import Any, Optional

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "compile"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "budget", "backend")
    budget = parameters.get("budget", 1.0)
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 <= budget <= 1:
        return f"`budget` lies between 0 and 1, and {budget!r} does not"
    if _is_compiled(context.root()):
        return "the model is compiled already"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches, root = context.torch, Patches(), context.root()
    budget = parameters.get("budget")
    if budget is not None:
        import torch._functorch.config as settings

        before = settings.activation_memory_budget
        settings.activation_memory_budget = float(budget)
        patches.later(lambda: setattr(settings, "activation_memory_budget", before))
    options = {"backend": parameters["backend"]} if "backend" in parameters else {}
    patches.attribute(root, "forward", torch.compile(root.forward, **options))
    return patches.undo


def _is_compiled(module: Any) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
