"""Measures variants of workloads on the virtual card, and keeps what was measured.

A variant is a workload, what a tool answered, and a limit. What was measured is found again by everything that it
depends on: the script, the answer, the release of PyTorch, the card, and the files that run, so that a long job can
be stopped and begun again, and a new build measures anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import settings  # noqa: E402 - the benches' own module, one folder up.
from warm import MARK  # noqa: E402

PLAIN: dict[str, Any] = {"kind": "none"}
BATCH_OF_JOBS = 48
#: Parts of the agent that do nothing in a run without a plan of oomproof's, as all runs here are.
ASLEEP = ("planfacts.py", "plans.py", "warm.py")


@dataclass(frozen=True)
class Workload:
    """One script, as workloads.toml has it."""

    name: str
    units: list[str]
    alike: bool = False
    loss: str | None = None
    special: str | None = None
    whole_batch: bool = False
    quick: bool = False
    held_out: bool = False
    needs: list[str] = field(default_factory=list)

    @property
    def script(self) -> Path:
        return HERE / "workloads" / f"{self.name}.py"

    @property
    def batch(self) -> int:
        """The rows of a batch, as the script has them when it is not told otherwise."""
        found = re.search(r'"--batch", type=int, default=(\d+)', self.script.read_text())
        assert found is not None, self.name
        return int(found[1])


@dataclass(frozen=True)
class Variant:
    """One way to run one workload."""

    workload: Workload
    answer: dict[str, Any]
    arguments: tuple[str, ...] = ()
    limit_bytes: int | None = None
    on_cpu: bool = False
    in_single: bool = False
    rows: bool = True
    timeout_secs: int = 120


@dataclass(frozen=True)
class Place:
    """What all runs have in common."""

    oomproof: str
    python: str
    gpu: str
    state: Path
    identity: str
    #: The program and all of its agent, for what `oomproof fit` says.
    program: str
    torch: str
    context_bytes: int


def digest(paths: Iterable[Path]) -> str:
    """Of the contents of files."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def place(*, oomproof: str, python: str, gpu: str, state: Path) -> Place:
    """Asks a run which files it uses, and what the context of the card takes."""
    state.mkdir(parents=True, exist_ok=True)
    found = settings.of_a_run(oomproof, python, gpu=gpu)
    agent = Path(found.python_path.split(os.pathsep)[0])
    of_agent = sorted(agent.rglob("*.py"))
    own = [HERE / name for name in ("applied.py", "warm.py", "watch.py")]
    files = [Path(found.device), *(file for file in of_agent if file.name not in ASLEEP), *own]
    asked = subprocess.run(
        [python, "-c", "import importlib.metadata as m; print(m.version('torch'))"], capture_output=True, text=True
    )
    return Place(
        oomproof=oomproof,
        python=python,
        gpu=gpu,
        state=state,
        identity=digest(files),
        program=digest([Path(shutil.which(oomproof) or oomproof), *of_agent]),
        torch=asked.stdout.strip(),
        context_bytes=int(found.values["context_bytes"]["likely"]),
    )


def key(variant: Variant, where: Place) -> str:
    """What the result depends on, in one word."""
    levers = Path(os.environ.get("FIT_GRID_LEVERS", REPOSITORY / "python" / "oomproof" / "levers"))
    kind = variant.answer["kind"]
    parts = {
        "script": variant.workload.script.read_text(),
        "answer": variant.answer,
        "arguments": variant.arguments,
        "limit": variant.limit_bytes,
        "cpu": variant.on_cpu,
        "gpu": where.gpu,
        "torch": where.torch,
        "identity": where.identity,
        "tool": digest([HERE / "tools" / f"{kind}.py"]) if kind not in ("none", "ours") else "",
        "levers": digest(levers.rglob("*.py")) if kind == "ours" else "",
        **({"in_single": True} if variant.in_single else {}),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


class Measured:
    """Results by key, on disk as one line each."""

    def __init__(self, where: Place, beside: Measured | None = None) -> None:
        self.where = where
        #: The same in an environment that only some tool needs.
        self.beside = beside
        self._file = where.state / "measured.jsonl"
        self._known: dict[str, dict[str, Any]] = {}
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                result = json.loads(line)
                self._known[result["name"]] = result

    def of(self, variants: list[Variant]) -> list[dict[str, Any]]:
        """The results of all variants, in their order; what is not known is run."""
        named = {key(variant, self.where): variant for variant in variants}
        due = [(name, variant) for name, variant in named.items() if self._is_due(name, variant)]
        for on_cpu in (False, True):
            these = [pair for pair in due if pair[1].on_cpu == on_cpu]
            for start in range(0, len(these), BATCH_OF_JOBS):
                with self._file.open("a") as file:
                    for result in self._run(these[start : start + BATCH_OF_JOBS]):
                        self._known[result["name"]] = result
                        if result["ended"] in ("no answer", "time is up"):
                            continue
                        file.write(json.dumps(result) + "\n")
                        file.flush()
        missing = {"ended": "no answer"}
        return [self._known.get(key(variant, self.where), missing) for variant in variants]

    def _is_due(self, name: str, variant: Variant) -> bool:
        known = self._known.get(name)
        if known is None:
            return True
        # Gradients are compared with a file, which may be gone.
        lacks_file = variant.answer == PLAIN and not self._gradients(variant).exists()
        return variant.on_cpu and known["ended"] == "ok" and (lacks_file or known.get("compared") is None)

    def one(self, variant: Variant) -> dict[str, Any]:
        return self.of([variant])[0]

    def _gradients(self, variant: Variant) -> Path:
        return self.where.state / "gradients" / f"{key(variant, self.where)}.pt"

    def _run(self, jobs: list[tuple[str, Variant]]) -> Iterator[dict[str, Any]]:
        (self.where.state / "gradients").mkdir(exist_ok=True)
        imports = ["torch", "torch.utils.checkpoint", "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"]
        if any("transformers" in variant.workload.needs for _, variant in jobs):
            imports += ["transformers.trainer", "accelerate"]
        listed = [
            {
                "name": name,
                "script": str(variant.workload.script),
                "arguments": [*variant.arguments, *(["--small", "--device", "cpu"] if variant.on_cpu else [])],
                "answer": variant.answer,
                "limit_bytes": variant.limit_bytes,
                "rows": variant.rows,
                "gradients": str(self._gradients(variant)) if variant.on_cpu else None,
                "compare_with": str(self._gradients(replace(variant, answer=PLAIN))) if variant.on_cpu else None,
                "in_double": variant.on_cpu and not variant.in_single,
                "timeout_secs": variant.timeout_secs,
            }
            for name, variant in jobs
        ]
        where = self.where
        limit = 60 + sum(variant.timeout_secs for _, variant in jobs)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "jobs.json"
            file.write_text(json.dumps({"imports": imports, "jobs": listed}))
            process = subprocess.Popen(
                [
                    *[where.oomproof, "run", "--json", "--full", "--no-labels", "--gpu", where.gpu],
                    *["--memory", "1TiB", "--python", where.python, "--timeout", f"{limit}s"],
                    *(["--real-init", "--allow-writes"] if jobs[0][1].on_cpu else []),
                    *[str(HERE / "warm.py"), str(file)],
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=folder,
                env={**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1", "HF_HUB_OFFLINE": "1"},
            )
            assert process.stderr is not None
            last: list[str] = []
            for line in process.stderr:
                if line.startswith(MARK):
                    yield json.loads(line[len(MARK) :])
                else:
                    last = [*last, line][-10:]
            if process.wait() not in (0, 10, 11):
                sys.stderr.write("".join(last))
