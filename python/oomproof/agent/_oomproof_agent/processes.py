"""Other processes of the script.

A forked child shares the parent's profile and its hooks, and must not touch either. A spawned one starts with an agent
of its own, which does nothing until that process imports PyTorch.
"""

from __future__ import annotations

import os
from typing import Callable


def after_fork_in_child(action: Callable[[], None]) -> None:
    os.register_at_fork(after_in_child=action)


def prepare_environment(*, standins: str) -> None:
    """Variables for libraries in this process and its children."""
    # Triton looks for the driver itself, in a folder.
    os.environ["TRITON_LIBCUDA_PATH"] = standins
