"""Another implementation of attention, where a model lets one choose.

Models of Hugging Face look the implementation up in their configuration at every call. Attention that a script writes
out itself cannot be exchanged from outside.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known, one_of
from .patches import Patches

NAME = "attention"
MOMENT = Moment.MODEL

_CHOICES = ("sdpa", "flash_attention_2", "eager")
_SUPPORT = {"sdpa": ("_supports_sdpa",), "flash_attention_2": ("_supports_flash_attn", "_supports_flash_attn_2")}
_CONFIGURED = "_attn_implementation"


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "implementation")
    wanted = one_of(parameters, "implementation", _CHOICES, default="sdpa")
    models = _models(context)
    if not models:
        return "the model computes attention in code of its own, which cannot be exchanged"
    for path, model in models:
        supported = _SUPPORT.get(wanted)
        if supported is not None and not any(getattr(model, name, False) for name in supported):
            return f"`{type(model).__name__}`{_at(path)} has no attention by `{wanted}`"
        if not _looks_up(model):
            return f"`{type(model).__name__}`{_at(path)} chooses its attention when it is made"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    patches = Patches()
    wanted = one_of(parameters, "implementation", _CHOICES, default="sdpa")
    for _, model in _models(context):
        for config in _configs(model):
            patches.attribute(config, f"{_CONFIGURED}_internal", wanted)
    return patches.undo


def _models(context: Context) -> List[Tuple[str, Any]]:
    """Modules with a configuration that names an implementation."""
    found = []
    for path, module in context.root().named_modules():
        config = getattr(module, "config", None)
        if isinstance(getattr(config, _CONFIGURED, None), str) and hasattr(module, "get_input_embeddings"):
            found.append((path, module))
    return found


def _configs(model: Any) -> List[Any]:
    configs = [model.config]
    for module in model.modules():
        config = getattr(module, "config", None)
        if hasattr(config, f"{_CONFIGURED}_internal") and not any(config is known_one for known_one in configs):
            configs.append(config)
    return configs


def _looks_up(model: Any) -> bool:
    """Whether the implementation is looked up at every call, as it is since there is a table of them."""
    import importlib

    try:
        module = importlib.import_module(type(model).__module__)
    except ImportError:
        return False
    return hasattr(module, "ALL_ATTENTION_FUNCTIONS") and hasattr(model.config, f"{_CONFIGURED}_internal")


def _at(path: str) -> str:
    return f" at `{path}`" if path else ""
