"""`oomproof` on a script in a folder, for the tests beside this file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("OOMPROOF_BIN", str(ROOT / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)
# What a context takes on an RTX 4090, by the catalog, in MiB.
CONTEXT = 426

_NAMES = re.compile(r'^NAME = "([a-z-]+)"$', re.MULTILINE)


def all_but(*left: str) -> str:
    """For `--without`: every lever but these, so that a search is as short as it can be."""
    files = sorted((ROOT / "python" / "oomproof" / "levers").glob("*.py"))
    return ",".join(name for file in files for name in _NAMES.findall(file.read_text()) if name not in left)


def oomproof(folder: Path, verb: str, *arguments: str) -> Dict[str, Any]:
    """What a verb says as JSON, with its exit code and what it told beside."""
    command = [PROGRAM, verb, "--python", PYTHON, "--json", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    found: Dict[str, Any] = json.loads(done.stdout)
    return {**found, "code": done.returncode, "said": done.stderr}
