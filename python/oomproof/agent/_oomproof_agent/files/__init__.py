"""Keeps the user's files out of the reach of a virtual run.

`install` is called once in every Python process of the run, before the script's first line, and must be cheap: the
modules it changes later are waited for, not imported.

**Invariant**: nothing here knows the device, the profile or the labels; it knows paths and `note`.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional

from . import programs, trackers
from .imports import AfterImport
from .overlay import Note, Overlay
from .redirect import Redirect
from .saves import Saves

__all__ = ["install"]


def install(settings: Dict[str, Any], note: Note) -> Optional[Overlay]:
    """Redirects what the script writes to `settings["scratch"]`, unless the user allowed writes."""
    if settings["allow_writes"]:
        return None
    overlay = Overlay(scratch=settings["scratch"], free=[settings["run_dir"]], note=note)
    trackers.environment(scratch=overlay.scratch)
    sys.dont_write_bytecode = True
    redirect = Redirect(overlay)
    redirect.install()
    saves = Saves(redirect)
    AfterImport(
        {
            "subprocess": programs.changes(overlay, note),
            "torch.serialization": saves.serialization,
            "torch.jit._serialization": saves.torch_loads,
            "torch.autograd.profiler": saves.profiler,
            "torch.jit._script": saves.script_module,
            "safetensors": saves.safetensors,
            "safetensors.torch": saves.safetensors_of_torch,
            "sqlite3.dbapi2": saves.sqlite,
            "huggingface_hub.hf_api": trackers.uploads_off(note),
        }
    ).install()
    return overlay
