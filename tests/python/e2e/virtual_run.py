"""Scripts as a user runs them: the program of the command line, a torch, and a folder of the user's own.

Importing torch costs more than most scripts, so a script is run once, whatever is asked about it afterwards, and those
that follow it in its file are started while it runs. What must hold for every run is looked at after every run: no
process, no temporary folder and, unless that was asked for, no change in the user's folder is left behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("OOMPROOF_BIN", ROOT / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)
WORDS_OF_OURS = ("OOMPROOF_RUN", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_VISIBLE_DEVICES", "PYTHONPATH")

# What the scripts use to hand out figures, and nothing that a user's script would not have.
PRELUDE = """\
import gc, json, os, sys
def result(**fields):
    sys.stdout.flush()
    os.write(1, ("\\nRESULT " + json.dumps(fields) + "\\n").encode())
"""

Content = Dict[str, Tuple[Any, ...]]


@dataclass
class Finished:
    """What a user has after a run."""

    code: int
    out: str
    err: str
    folder: Path
    seconds: float
    before: Content
    after: Content
    left: List[str]

    @cached_property
    def verdict(self) -> Dict[str, Any]:
        assert self.out, self.err
        whole: Dict[str, Any] = json.loads(self.out)
        return whole

    @cached_property
    def results(self) -> Dict[str, Any]:
        found: Dict[str, Any] = {}
        for line in self.err.splitlines():
            if line.startswith("RESULT "):
                found.update(json.loads(line[7:]))
        return found

    @property
    def peak(self) -> Dict[str, Any]:
        peak: Dict[str, Any] = self.verdict["peak"]
        return peak

    def reasons(self) -> List[str]:
        return [reason["kind"] for reason in self.verdict["reasons"]]

    def assumptions(self, kind: str) -> List[Dict[str, Any]]:
        return [each for each in self.verdict["assumptions"] if each["kind"] == kind]

    def reads(self) -> List[Dict[str, Any]]:
        """What was read and is not known for sure, for whatever reason."""
        kinds = ("unknown_value", "unknown_number", "unknown_data", "assumed_value", "assumed_health", "given_value")
        return [each for kind in kinds for each in self.assumptions(kind)]


@dataclass
class Program:
    """A script and how it is run; `result()` runs it when nobody has yet."""

    script: str
    options: Sequence[str] = ("--gpu", "rtx-4090")
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    output: Sequence[str] = ("--json",)
    # What stands before the arguments of the script: the script itself or a module.
    target: Sequence[str] = ("train.py",)
    # The command line that the program's own becomes the end of.
    prefix: Sequence[str] = ()
    # What happens to the run from outside, once the script has printed `READY`.
    when_ready: Optional[Callable[[subprocess.Popen[bytes], int], None]] = None
    writes: bool = False
    # How many times the command runs the script: what is waited for at most is two minutes for each.
    n_runs: int = 1

    def __post_init__(self) -> None:
        self._future: Optional[Future[Finished]] = None
        _programs.append(self)

    def result(self) -> Finished:
        position = next(at for at, program in enumerate(_programs) if program is self)
        for program in _programs[position : position + 1 + _AHEAD]:
            if program._future is None:
                program._future = _pool.submit(program._run)
        assert self._future is not None
        finished = self._future.result()
        assert finished.left == [], f"left behind: {finished.left}\n{finished.err}"
        if not self.writes:
            assert finished.after == finished.before
        return finished

    def _run(self) -> Finished:
        assert PROGRAM.exists(), f"there is no program {PROGRAM}; build it or set OOMPROOF_BIN"
        home = Path(tempfile.mkdtemp(prefix="e2e-", dir=_session.name))
        folder, temporary = home / "project", home / "tmp"
        for path in (folder, temporary):
            path.mkdir()
        (folder / "train.py").write_text(PRELUDE + textwrap.dedent(self.script))
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        mark = f"OOMPROOF_E2E_MARK={uuid.uuid4()}"
        environment = {name: value for name, value in os.environ.items() if name not in WORDS_OF_OURS}
        environment.update(
            HOME=str(home),
            TMPDIR=str(temporary),
            XDG_CACHE_HOME=str(Path(_session.name) / "cache"),
            XDG_STATE_HOME=str(home / "state"),
            OMP_NUM_THREADS="1",
        )
        environment.update(self.environment)
        environment.update([mark.split("=")])
        command = [*self.prefix, str(PROGRAM), "run", "--python", PYTHON, *self.options, *self.output]
        command += [*self.target, *self.arguments]
        before, begun = content(folder), time.monotonic()
        with subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            early = self._wait_until_ready(process) if self.when_ready is not None else b""
            try:
                out, err = process.communicate(self.stdin.encode(), timeout=120 * self.n_runs)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        seconds = time.monotonic() - begun
        # Torch makes a folder there itself when it may.
        folders = [path for path in temporary.iterdir() if not (self.writes and path.name.startswith("torchinductor"))]
        left = [f"process {pid}" for pid in _processes_with(mark)] + [str(path) for path in folders]
        return Finished(
            process.returncode, out.decode(), (early + err).decode(), folder, seconds, before, content(folder), left
        )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stderr is not None and self.when_ready is not None
        seen = b""
        for line in iter(process.stderr.readline, b""):
            seen += line
            if line.startswith(b"READY"):
                self.when_ready(process, int(line.split()[1]))
                break
        return seen


def content(folder: Path) -> Content:
    """Names, kinds, bytes and times of all that is in a folder."""
    found: Content = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, data)
    return found


def gpus_for(profile: str) -> List[Dict[str, Any]]:
    """What another command reads from a profile."""
    command = [str(PROGRAM), "gpus", "--for", profile, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    cards: List[Dict[str, Any]] = json.loads(done.stdout)["gpus"]
    return cards


def _processes_with(mark: str) -> List[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


_AHEAD = 2
_programs: List[Program] = []
_pool = ThreadPoolExecutor(max_workers=3)
_session = tempfile.TemporaryDirectory(prefix="oomproof-e2e-")
