"""GPU memory for PyTorch, without surprises.

The program is `oomproof`; from Python it is `main`, which takes the same words and returns the same exit codes::

    import oomproof

    code = oomproof.main(["run", "--gpu", "rtx-4090", "train.py"])

The package never imports torch by itself, and need not be installed where torch is: `oomproof run` starts the Python
that is first in PATH. Where it is, `apply` puts a plan into effect inside a script::

    applied = oomproof.apply("plan.toml", model, optimizer)
"""

from __future__ import annotations

from oomproof._command import main
from oomproof._native import __version__
from oomproof.levers import Applied, PlanRefused, apply

__all__ = ["Applied", "PlanRefused", "__version__", "apply", "main"]
