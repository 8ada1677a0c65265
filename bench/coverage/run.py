"""Scripts of the kinds that people run, each on a virtual card, with its figure checked.

    python bench/coverage/run.py --python PYTHON --oomproof OOMPROOF [--only WORD ...] [--skip PART ...]

PYTHON has the packages that table.toml names; what lacks one is listed as not run. A script is run up to three times,
and what was found is kept below --state, so that parts can be run again and the report be made of all:

- `run`: as a user would, which gives the verdict;
- `whole`: to its end and without labels, under a census, which gives PyTorch's own counters and counts of work;
- `cpu`: the same with no device, where all values are real, which gives the counts that the census must have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checks
import report

if sys.version_info < (3, 11):
    sys.exit("error: the table is TOML, which Python reads from 3.11 on")

import tomllib

HERE = Path(__file__).resolve().parent
PARTS = ("run", "whole", "cpu")
VERSIONS = """
import importlib.metadata, json, sys
names = sys.argv[1].split(",")
found = {}
for name in names:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Row:
    """One script with its arguments, as table.toml has it."""

    name: str
    kind: str
    file: str
    gpu: str = "rtx-4090"
    arguments: list[str] = field(default_factory=list)
    launcher: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)
    memory: str | None = None
    steps_only: bool = False
    without_cpu: str | None = None
    differs: str | None = None
    counters_differ: str | None = None
    at_least: str | None = None
    at_most: str | None = None
    same_peak_as: str | None = None
    less_by: int = 0
    timeout_secs: int = 0
    expect: str = "fits"
    note: str | None = None

    @property
    def path(self) -> str:
        """Where the script is; a module of an installed package begins with `-m`."""
        return str((HERE / self.file).resolve())

    @property
    def stands_alone(self) -> bool:
        """Whether it cannot share a process with others."""
        return bool(self.launcher or self.memory or self.file.endswith(".ipynb"))


@dataclass(frozen=True)
class Place:
    """What the runs have in common."""

    python: str
    oomproof: str
    timeout_secs: int

    def limit_secs(self, row: Row) -> int:
        """For a run of this row, which may ask for more than others get."""
        return max(self.timeout_secs, row.timeout_secs)


def rows() -> list[Row]:
    """All of the table."""
    with (HERE / "table.toml").open("rb") as file:
        return [Row(**entry) for entry in tomllib.load(file)["script"]]


def options(row: Row, place: Place, part: str) -> list[str]:
    """The settings of a run."""
    asked = ["--gpu", row.gpu, "--json", "--python", place.python]
    if row.memory:
        asked += ["--memory", row.memory]
    if part != "run":
        asked += ["--full", "--no-labels"]
    return [*asked, "--real-init"] if part == "cpu" else asked


def environment(part: str, folder: str) -> dict[str, str]:
    """Nothing is asked of the network, and on the CPU there is no device."""
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "YOLO_OFFLINE": "true"}
    if part != "run":  # Where the device is counted by CUDA, a process cannot fork afterwards.
        offline["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if part == "cpu" else {}
    return {**os.environ, **offline, **hidden, "YOLO_CONFIG_DIR": folder}


def start(row: Row, place: Place, part: str) -> dict[str, Any]:
    """Runs one part of one row and keeps what is needed of it."""
    counted = [str(HERE / "census.py"), *(["--optimizers-only"] if row.steps_only else [])] if part != "run" else []
    limit = ["--timeout", f"{place.limit_secs(row)}s"]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        finished = subprocess.run(
            [
                *[place.oomproof, "run", *options(row, place, part), *limit],
                *[*row.launcher, *counted, row.path, *row.arguments],
            ],
            capture_output=True,
            text=True,
            errors="replace",
            env=environment(part, folder),
            cwd=folder,
        )
    marked = [line.split("CENSUS", 1)[1] for line in finished.stderr.splitlines() if line.startswith("CENSUS")]
    try:
        verdict = json.loads(finished.stdout)
    except ValueError:
        verdict = None
    return {
        "verdict": verdict,
        "census": sorted((json.loads(line) for line in marked), key=lambda counts: int(counts["rank"])),
        "exit_code": verdict["script"]["exit_code"] if verdict else finished.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "last_lines": [line for line in finished.stderr.splitlines() if not line.startswith("CENSUS")][-40:],
    }


def start_batch(several: list[Row], place: Place, part: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs one part of rows that have the same settings in one process, which forks; gives each when it is done."""
    jobs = [
        {
            "name": row.name,
            "script": row.path,
            "arguments": row.arguments,
            "optimizers_only": row.steps_only,
            "timeout_secs": place.limit_secs(row),
        }
        for row in several
    ]
    limit = ["--timeout", f"{4 * place.timeout_secs + sum(place.limit_secs(row) for row in several)}s"]
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "jobs.json"
        listed.write_text(json.dumps(jobs))
        process = subprocess.Popen(
            [place.oomproof, "run", *options(several[0], place, part), *limit, str(HERE / "batch.py"), str(listed)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment(part, folder),
            cwd=folder,
        )
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("BATCH"):
                result = json.loads(line[5:])
                yield result.pop("name"), result
        process.wait()


def versions(python: str, names: set[str]) -> dict[str, str]:
    """Which of the packages there are, and of what version."""
    asked = [python, "-c", VERSIONS, ",".join(sorted(names))]
    return dict(json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    """Runs what is asked for and writes the report of all that is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", required=True)
    parser.add_argument("--oomproof", default="oomproof")
    parser.add_argument("--state", type=Path, default=Path("target/coverage"))
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--skip", nargs="*", default=[], choices=PARTS)
    parser.add_argument("--missing", action="store_true", help="only what has no result yet or failed")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--timeout", type=int, default=150, help="seconds for each run")
    parser.add_argument("--report", type=Path, help="write the table here")
    arguments = parser.parse_args()
    place = Place(arguments.python, arguments.oomproof, arguments.timeout)
    arguments.state.mkdir(parents=True, exist_ok=True)
    table = rows()
    found = versions(place.python, {name for row in table for name in row.needs} | {"torch", "triton", "numpy"})
    # A script's first row comes before the second of any, so that a run that is cut short has seen most kinds.
    seen: set[str] = set()
    again = {row.name for row in table if row.file in seen or seen.add(row.file)}
    table_in_turn = sorted(table, key=lambda row: row.name in again)
    wanted = [row for row in table_in_turn if not arguments.only or any(word in row.name for word in arguments.only)]

    def keep(row: Row, part: str, result: dict[str, Any]) -> None:
        (arguments.state / f"{row.name}.{part}.json").write_text(json.dumps(result, indent=1))
        print(f"{row.name:<28} {part:<6} {report.in_short(result)}", flush=True)

    def is_due(row: Row, part: str) -> bool:
        if part in arguments.skip or (part == "cpu" and row.without_cpu):
            return False
        kept = arguments.state / f"{row.name}.{part}.json"
        if arguments.missing and kept.exists() and checks.went_well(row, part, json.loads(kept.read_text())):
            return False
        lacking = [name for name in row.needs if name not in found]
        if lacking:
            keep(row, part, {"lacking": lacking})
        return not lacking

    def run_group(rows_of_group: list[Row], part: str) -> None:
        if part == "run" or rows_of_group[0].stands_alone:
            keep(rows_of_group[0], part, start(rows_of_group[0], place, part))
            return
        by_name = {row.name: row for row in rows_of_group}
        for name, result in start_batch(rows_of_group, place, part):
            keep(by_name[name], part, result)

    groups: dict[tuple[str, ...], list[Row]] = {}
    for part in PARTS:
        for row in wanted:
            if is_due(row, part):
                alone = row.name if part == "run" or row.stands_alone else ""
                groups.setdefault((part, row.gpu if part == "whole" else "", alone), []).append(row)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for finished in [pool.submit(run_group, group, key[0]) for key, group in groups.items()]:
            finished.result()
    results = {
        row.name: {
            part: json.loads(kept.read_text())
            for part in PARTS
            if (kept := arguments.state / f"{row.name}.{part}.json").exists()
        }
        for row in table
    }
    if arguments.report:
        arguments.report.write_text(report.document(table, results, found))
    print(report.summary(table, results))


if __name__ == "__main__":
    main()
