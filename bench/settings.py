"""What `oomproof run` tells the process of a script, so that a bench can start a process with other settings.

The settings of a run are a file that the run removes when it ends; a script that prints it is run once.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timing import run

PROBE = """
import json, os, sys
import torch
settings = json.load(open(os.environ["OOMPROOF_RUN"]))
sys.stderr.write("\\nPROBE" + json.dumps([settings, os.environ["PYTHONPATH"]]) + "\\n")
"""


@dataclass(frozen=True)
class Settings:
    """The settings of a run on a virtual card, and the folder of the agent."""

    values: Mapping[str, Any]
    python_path: str

    @property
    def device(self) -> str:
        return str(self.values["vgpu"])

    @property
    def stand_ins(self) -> str:
        return str(self.values["standins"])

    def write(self, folder: Path, **changes: object) -> Path:
        """`run.json` for a run whose files go below `folder`."""
        own = {"run_dir": str(folder / "profiles"), "scratch": str(folder / "scratch")}
        for path in own.values():
            Path(path).mkdir(parents=True, exist_ok=True)
        file = folder / "run.json"
        file.write_text(json.dumps({**self.values, **own, **changes}))
        return file

    def environment(self, run_json: Path) -> dict[str, str]:
        """The environment that `oomproof run` gives a script."""
        return {**os.environ, "OOMPROOF_RUN": str(run_json), "PYTHONPATH": self.python_path}


def of_a_run(oomproof: str, python: str, *, gpu: str) -> Settings:
    """The settings of a run of `oomproof` on `gpu`."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.py"
        probe.write_text(PROBE)
        profile = Path(folder) / "probe.oomprofile"
        finished = run(
            [
                "bash",
                "-c",
                '"$@" || true',
                "oomproof",
                oomproof,
                "run",
                "--json",
                "--full",
                "--gpu",
                gpu,
                "--python",
                python,
                "--profile",
                str(profile),
                str(probe),
            ]
        )
    for line in finished.err.splitlines():
        if line.startswith("PROBE"):
            values, python_path = json.loads(line.removeprefix("PROBE"))
            return Settings(values, python_path)
    sys.exit(f"`{oomproof} run` did not start a script:\n{finished.err[-4000:]}")
