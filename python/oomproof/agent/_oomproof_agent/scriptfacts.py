"""What a script is made of, as far as a lever has to know: its optimizers, its attention, its frameworks.

All of it is read off objects that exist; nothing is imported for it, because an import would change the run.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import sys
from types import FrameType
from typing import Any, Dict, List, Optional

_PACKAGES = ("transformers", "peft", "accelerate", "bitsandbytes", "torchao", "liger_kernel", "lightning", "triton")
# By a part of the path of the file that calls: framework and source of its batches.
_CALLERS = (
    (os.path.join("transformers", "trainer.py"), "transformers.Trainer", "trainer"),
    (os.path.join("lightning", "pytorch") + os.sep, "lightning", "lightning"),
    ("pytorch_lightning" + os.sep, "lightning", "lightning"),
    (os.path.join("accelerate", "optimizer.py"), "accelerate", "accelerate"),
)


def packages() -> Dict[str, Optional[str]]:
    """Versions of installed packages; null where there is none."""
    found: Dict[str, Optional[str]] = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


class Callers:
    """Frameworks above the current call."""

    def __init__(self) -> None:
        self.frameworks: List[str] = []
        self.source: Optional[str] = None

    def look(self) -> None:
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            for part, framework, source in _CALLERS:
                if part in file and framework not in self.frameworks:
                    self.frameworks.append(framework)
                    # The outermost of them owns the loop.
                    self.source = source
            frame = frame.f_back


def optimizer(entry: Any) -> Dict[str, Any]:
    parameters = [parameter for group in entry.param_groups for parameter in group["params"]]
    sizes = [_bytes(parameter) for parameter in parameters]
    return {
        "class": f"{type(entry).__module__}.{type(entry).__qualname__}",
        "implementation": _implementation(entry, parameters),
        "state_bytes": sum(_state_bytes(state) for state in entry.state.values()),
        "parameter_bytes": sum(sizes),
        "largest_parameter_bytes": max(sizes, default=0),
    }


def attention(root: Any) -> List[Dict[str, Any]]:
    config = getattr(root, "config", None)
    implementation = getattr(config, "_attn_implementation", None)
    supported = getattr(root, "_supports_sdpa", None)
    found = []
    for path, module in root.named_modules():
        name = type(module).__name__
        if "Attention" not in name or any("Attention" in type(child).__name__ for child in module.children()):
            continue
        own = getattr(getattr(module, "config", None), "_attn_implementation", implementation)
        can = bool(supported) if isinstance(own, str) and supported is not None else False
        found.append({"path": path, "implementation": own if isinstance(own, str) else None, "can_sdpa": can})
    return found


def lacks_gradients(root: Any) -> bool:
    return all(parameter.grad is None for parameter in root.parameters())


def _implementation(entry: Any, parameters: List[Any]) -> Optional[str]:
    group = entry.param_groups[0] if entry.param_groups else {}
    if group.get("fused"):
        return "fused"
    if group.get("foreach"):
        return "foreach"
    if "foreach" not in inspect.signature(type(entry).__init__).parameters:
        return None
    if group.get("foreach") is None and not group.get("differentiable"):
        return "foreach" if all(parameter.is_cuda for parameter in parameters) else "forloop"
    return "forloop"


def _state_bytes(state: Any) -> int:
    values = state.values() if isinstance(state, dict) else ()
    return sum(_bytes(value) for value in values if hasattr(value, "element_size") and getattr(value, "is_cuda", False))


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())
