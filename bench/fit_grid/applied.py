"""Applies what a tool answered to a script, and runs the script: `python applied.py ANSWER SCRIPT [ARGUMENT ...]`.

ANSWER is JSON whose `kind` names the tool's file; `none` is the script as it is.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Applies and runs."""
    answer, script = json.loads(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [str(Path(script).parent), here, *(path for path in sys.path if path != here)]
    if answer["kind"] != "none":
        importlib.import_module(f"tools.{answer['kind']}").apply(answer)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
