"""The agent's own failures.

A run without the agent's protection would be worse than none, so a failure before the script starts ends the process
with the code for a broken environment; the sentence is also left for the launcher, which cannot tell such an end from a
script that exits with the same code.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict

ENVIRONMENT = 5

_exit_now = os._exit


def give_up(settings: Dict[str, Any], text: str, hint: str) -> None:
    """Says `text` and ends the process."""
    message = f"{text}\nhint: {hint}\n"
    try:
        path = os.path.join(settings["run_dir"], f"{os.getpid()}.failure")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(handle, message.encode("utf-8", "replace"))
        os.close(handle)
    except (KeyError, OSError):
        # The sentence below is what people see; the file only helps the launcher.
        pass
    sys.stderr.write(f"oomproof: {message}")
    sys.stderr.flush()
    _exit_now(ENVIRONMENT)
