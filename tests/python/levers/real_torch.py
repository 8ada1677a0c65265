"""Levers are tried with real arithmetic on the CPU, in the process of the tests.

A torch that was installed without NVIDIA's libraries is linked to them all the same, so stand-ins are loaded first: a
test imports this before torch.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

STANDINS = os.environ.get("OOMPROOF_TEST_STANDINS", "")
if STANDINS and "torch" not in sys.modules:
    for name in (Path(STANDINS) / "load_order.txt").read_text().split():
        ctypes.CDLL(str(Path(STANDINS) / name), mode=ctypes.RTLD_GLOBAL)
# As the agent finds the package: in its folder, without the extension module beside it.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "oomproof"))

import torch  # noqa: E402

# Small tensors; more threads than cores would wait for each other.
torch.set_num_threads(1)
