"""Whether the script is still the one that a plan was made for.

A plan was verified for one program. Where that has changed, its figures hold no longer and its module paths may mean
something else, so the plan is refused with what differs.
"""

from __future__ import annotations

from typing import Any, Optional

from .context import Context, find
from .refusal import PlanRefused


def check_release(context: Context) -> None:
    """Refuses another minor release of torch."""
    wanted = context.expects.get("torch")
    if wanted is None:
        return
    version = str(context.torch.__version__).split("+")[0]
    if version.split(".")[:2] != str(wanted).split(".")[:2]:
        raise PlanRefused(f"the plan was made for torch {wanted}, and this is {version}")


def check_model(context: Context) -> None:
    """Refuses another model."""
    for path, kind in (context.expects.get("modules") or {}).items():
        found = type(context.module(path)).__name__
        if found != kind:
            raise PlanRefused(f"module `{path}` was a `{kind}` when the plan was made, and is a `{found}`")
    wanted = context.expects.get("parameters")
    found_count = count_parameters(context.root())
    if wanted is not None and wanted != found_count:
        raise PlanRefused(f"the model had {wanted} parameters when the plan was made, and has {found_count}")


def is_the_model(context: Context, module: Any) -> Optional[str]:
    """What `module` lacks of the model that the plan is for; `None` when it is that model."""
    for path in [*context.names, *(context.expects.get("modules") or {})]:
        if find(module, path) is None:
            return f"the model has no module `{path}`"
    if not any(True for _ in module.parameters()):
        return "no module with parameters was called for training"
    wanted = context.expects.get("parameters")
    if wanted is not None and not context.names and count_parameters(module) != wanted:
        return f"the model had {wanted} parameters when the plan was made, and has {count_parameters(module)}"
    return None


def check_batch(context: Context, rows: int) -> None:
    """Refuses a first batch of another size."""
    wanted = context.expects.get("batch")
    if wanted is not None and wanted != rows:
        raise PlanRefused(f"the first batch had {wanted} rows when the plan was made, and has {rows}")


def count_parameters(model: Any) -> int:
    return sum(int(parameter.numel()) for parameter in model.parameters())
