"""Scripts run under the agent with a fake device that logs every call.

The fake stands for the whole of CUDA too: PyTorch is linked against libraries that a test machine does not have, so
their names are given by empty libraries and their functions by one that answers each with an error. PyTorch then sees
no GPU and runs on the CPU, where hooks, modes and phases behave the same.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List

import pytest

HERE = Path(__file__).parent
# The interpreter of the scripts, which may have another PyTorch than the one that runs the tests.
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)
FIND_TORCH = "import importlib.util as u; spec = u.find_spec('torch'); print(spec.origin if spec else '')"
AGENT = HERE.parents[2] / "python" / "oomproof" / "agent"
FAMILIES = re.compile(r"^lib(cu(?!p_)|cudart|nv|nccl)")
OWN_SYMBOLS = re.compile(r"^(cu[A-Zbdfprs]|cuda|nv[A-Zmrs]|nccl|__cuda)")


@dataclass
class Finished:
    code: int
    out: str
    err: str
    lines: List[str]
    pid_logs: int

    @property
    def notes(self) -> List[Dict[str, Any]]:
        return [json.loads(line[5:]) for line in self.lines if line.startswith("note ")]

    def note(self, kind: str) -> Dict[str, Any]:
        found = [note for note in self.notes if note["kind"] == kind]
        assert len(found) == 1, (kind, self.notes, self.err)
        return found[0]

    def kinds(self) -> List[str]:
        return [note["kind"] for note in self.notes]

    def of(self, word: str) -> List[str]:
        return [line[len(word) + 1 :] for line in self.lines if line.startswith(word + " ")]


@dataclass
class Run:
    folder: Path
    device: Path
    standins: Path
    settings: Dict[str, Any] = field(default_factory=dict)
    paths: List[Path] = field(default_factory=list)

    def __call__(
        self,
        script: str,
        *arguments: str,
        run_name: str = "run.json",
        **settings: Any,
    ) -> Finished:
        run_json = self.folder / run_name
        whole = {
            "schema": 1,
            "vgpu": str(self.device),
            "standins": str(self.standins),
            "run_dir": str(self.folder),
            "scratch": str(self.folder / "scratch"),
            "steps": None,
            "full": False,
            "labels": True,
            "allow_writes": True,
            "real_init": True,
            **self.settings,
            **settings,
        }
        run_json.write_text(json.dumps(whole))
        source = self.folder / "script.py"
        source.write_text(textwrap.dedent(script))
        environment = {
            **os.environ,
            "OOMPROOF_RUN": str(run_json),
            "PYTHONPATH": os.pathsep.join(map(str, [AGENT, *self.paths])),
            "FAKE": str(self.device),
        }
        command = [PYTHON, str(source), *arguments]
        done = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )
        logs = sorted(self.folder.glob("run*.json.*.log"), key=lambda path: path.stat().st_mtime_ns)
        lines = [line for log in logs for line in log.read_text().splitlines()]
        return Finished(done.returncode, done.stdout, done.stderr, lines, len(logs))


def compile_library(source: str, output: Path, *, soname: str) -> None:
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(output), f"-Wl,-soname,{soname}"],
        input=source,
        text=True,
        check=True,
    )


@pytest.fixture(scope="session")
def fake_device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("device") / "libfake.so"
    compile_library((HERE / "fake_device.c").read_text(), output, soname="libfake.so")
    return output


@pytest.fixture(scope="session")
def fake_standins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries under the names that torch is linked against; without torch, two of them."""
    folder = tmp_path_factory.mktemp("standins")
    names, symbols = {"libcuda.so.1", "libcudart.so.13", "libnvidia-ml.so.1"}, set()
    found = subprocess.run([PYTHON, "-c", FIND_TORCH], capture_output=True, text=True, check=True).stdout.strip()
    if found:
        for library in (Path(found).parent / "lib").glob("lib*.so*"):
            dynamic = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True)
            needed = re.findall(r"\(NEEDED\).*\[(.+?)\]", dynamic.stdout)
            names |= {name for name in needed if FAMILIES.match(name)}
            listing = subprocess.run(
                ["nm", "-D", "--undefined-only", str(library)], capture_output=True, text=True, check=True
            )
            words = (line.split()[-1].split("@")[0] for line in listing.stdout.splitlines())
            symbols |= {word for word in words if OWN_SYMBOLS.match(word)}
    functions = "\n".join(f"int {symbol}() {{ return 100; }}" for symbol in sorted(symbols))
    compile_library(functions, folder / "libfunctions.so", soname="libfunctions.so")
    for name in names:
        compile_library("", folder / name, soname=name)
    order = ["libfunctions.so", *sorted(names)]
    (folder / "load_order.txt").write_text("\n".join(order) + "\n")
    return folder


@pytest.fixture
def run(tmp_path: Path, fake_device: Path, fake_standins: Path) -> Run:
    return Run(tmp_path, fake_device, fake_standins)
