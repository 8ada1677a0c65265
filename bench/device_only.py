"""Runs a script on the virtual device without the agent: `python device_only.py DEVICE STAND_INS RUN_JSON SCRIPT ARGS`.

With `-` for RUN_JSON there is no device either: the stand-ins only let a torch without NVIDIA's libraries be
imported, and `torch.cuda.is_available()` is False.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import sys
from pathlib import Path


def main() -> None:
    device, stand_ins, run_json, script = sys.argv[1:5]
    library = ctypes.CDLL(device, mode=ctypes.RTLD_GLOBAL)
    if run_json != "-" and library.oomproof_attach(os.fsencode(run_json)) != 0:
        library.oomproof_error.restype = ctypes.c_char_p
        sys.exit(library.oomproof_error().decode())
    for name in (Path(stand_ins) / "load_order.txt").read_text().split():
        ctypes.CDLL(str(Path(stand_ins) / name), mode=ctypes.RTLD_GLOBAL)
    sys.argv[:] = sys.argv[4:]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
