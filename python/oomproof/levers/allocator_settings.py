"""Settings of PyTorch's caching allocator, which are read when CUDA starts.

Under `oomproof run` they stand in the environment before torch is imported. In a process that imported torch already
they can still be set as long as nothing was allocated; after that, segments exist that were made under others. On the
CPU there is nothing to set, and nothing that stands in the way of the rest of a plan.
"""

from __future__ import annotations

import os
from typing import Optional

from .context import Context, Moment
from .lever import Undo, nothing
from .parameters import Parameters, known

NAME = "allocator-settings"
MOMENT = Moment.START

_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "conf")
    conf = parameters.get("conf")
    if not isinstance(conf, str) or ":" not in conf:
        return f"`conf` is text such as `expandable_segments:True`, and not {conf!r}"
    if not _in_environment(conf) and not _on_cpu(context) and context.torch.cuda.is_initialized():
        return f"CUDA has started; set `{_VARIABLES[1]}={conf}` before the script"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    conf = str(parameters["conf"])
    if not _in_environment(conf) and not _on_cpu(context):
        newer = getattr(context.torch._C, "_accelerator_setAllocatorSettings", None)
        (newer or context.torch.cuda.memory._set_allocator_settings)(conf)
    # Segments that were made under these settings cannot be made again under others.
    return nothing


def _on_cpu(context: Context) -> bool:
    """Whether there is no GPU, or it is known that the model is not on one."""
    if not context.torch.cuda.is_available():
        return True
    model = context.model
    return model is not None and all(entry.device.type == "cpu" for entry in model.parameters())


def _in_environment(conf: str) -> bool:
    wanted = set(conf.split(","))
    return any(wanted <= set(os.environ.get(name, "").split(",")) for name in _VARIABLES)
