"""Levers: changes that save memory, applied to a script that was written without them.

Inside a script::

    import oomproof

    applied = oomproof.apply("plan.toml", model, optimizer)
    ...
    applied.undo()

`oomproof run --plan plan.toml train.py` does the same without touching the script.

**Invariant:** plain Python 3.9 and torch, imported by relative names only, because the package is also loaded from its
folder where oomproof is not installed; never imports the agent, and works on a GPU as on the CPU.
"""

from __future__ import annotations

from .applied import Applied, apply, install
from .plan import Plan
from .refusal import PlanRefused
from .registry import NAMES

__all__ = ["NAMES", "Applied", "Plan", "PlanRefused", "apply", "install"]
