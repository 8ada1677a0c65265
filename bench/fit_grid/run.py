"""Gives small training scripts and caps of memory to tools that make training fit, and judges their plans as applied.

    python bench/fit_grid/run.py --python PYTHON --oomproof OOMPROOF --quick [--report FILE]

`--quick` has six workloads and four caps each; without it all twenty and all caps are done, which takes hours and can
be stopped at any time: what was measured is kept below --state. PYTHON has torch, and what tools.toml names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import lattice
import measure
import report
from cells import CAPS, Cell, cells_of, cheapest, plain, set_caps
from decision import Decision
from judge import Judged, judge
from measure import Measured, Workload
from tools import budget, finders, milp, ours, planner_ckptplan, rules

if sys.version_info < (3, 11):
    sys.exit("error: the table is TOML, which Python reads from 3.11 on")

import tomllib

TOOLS: dict[str, Callable[[Cell, Measured], Decision]] = {
    "oomproof fit": ours.decide,
    "checkpoint all": rules.full,
    "checkpoint every k": rules.every_k,
    "selective checkpoint": rules.selective,
    "memory budget, eager": budget.eager,
    "memory budget, inductor": budget.inductor,
    "sac_milp": milp.decide,
    "accelerate finder": finders.accelerate_finder,
    "accelerate finder + accumulation": finders.with_accumulation,
    "Trainer finder": finders.trainer_finder,
    "ckptplan": planner_ckptplan.decide,
}


def workloads() -> list[Workload]:
    """All of the table."""
    with (measure.HERE / "workloads.toml").open("rb") as file:
        return [Workload(**entry) for entry in tomllib.load(file)["workload"]]


def kept(files: list[Path]) -> list[Judged]:
    """What other jobs judged."""
    return [Judged(**json.loads(line)) for file in files for line in file.read_text().splitlines()]


def main() -> None:
    """Runs what is asked for and writes the report of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", required=True)
    parser.add_argument("--ckptplan-python", help="a Python with ckptplan and a release of torch that it accepts")
    parser.add_argument("--oomproof", default="oomproof")
    parser.add_argument("--gpu", default="rtx-4090")
    parser.add_argument("--state", type=Path, default=Path("target/fit_grid"))
    parser.add_argument("--quick", action="store_true", help="six workloads, four caps each")
    parser.add_argument("--tuning", action="store_true", help="leave out what is held out of tuning")
    parser.add_argument("--only", nargs="*", default=[], help="workloads")
    parser.add_argument("--tools", nargs="*", default=[], help="parts of names of tools")
    parser.add_argument("--without", nargs="*", default=[], help="parts of names of tools that are left out")
    parser.add_argument("--set-caps", action="store_true", help="find the floors anew and keep the caps")
    parser.add_argument("--keep", type=Path, help="write what was judged here, a line for each tool in each cell")
    parser.add_argument("--beside", nargs="*", default=[], type=Path, help="what other jobs kept, for the same tables")
    parser.add_argument("--report", type=Path, help="write the tables here")
    arguments = parser.parse_args()
    state = arguments.state.resolve()
    where = measure.place(oomproof=arguments.oomproof, python=arguments.python, gpu=arguments.gpu, state=state)
    beside = None
    if arguments.ckptplan_python:
        there = replace(where, python=arguments.ckptplan_python, state=state / "ckptplan")
        there.state.mkdir(exist_ok=True)
        beside = Measured(there)
    measured = Measured(where, beside)
    wanted = [
        workload
        for workload in workloads()
        if (workload.quick or not arguments.quick)
        and (not arguments.only or workload.name in arguments.only)
        and not (workload.held_out and arguments.tuning)
    ]
    chosen = {
        name: decide
        for name, decide in TOOLS.items()
        if (not arguments.tools or any(word in name for word in arguments.tools))
        and not any(word in name for word in arguments.without)
    }
    judged: list[Judged] = []
    for workload in wanted:
        every = lattice.variants(workload, measured)
        if arguments.set_caps or not CAPS.exists() or workload.name not in json.loads(CAPS.read_text()):
            results = measured.of([plain(workload), *every])
            reached = [result["reserved_bytes"] for result in results if result["ended"] == "ok"]
            set_caps(workload, plain_reserved=results[0]["reserved_bytes"], floor_reserved=min(reached))
        for cell in cells_of(workload, quick=arguments.quick):
            if cell.held_out and arguments.tuning:
                continue
            best = cheapest([plain(workload), *every], cell.reserved_bytes, measured)
            for name, decide in chosen.items():
                judged.append(judge(cell, name, decide(cell, measured), best, measured))
                print(report.line(judged[-1]), flush=True)
    if arguments.keep:
        arguments.keep.write_text("".join(json.dumps(asdict(each)) + "\n" for each in judged))
    whole = report.document([*judged, *kept(arguments.beside)], f"{where.gpu}, PyTorch {where.torch}")
    if arguments.report:
        arguments.report.write_text(whole)
    print(whole)


if __name__ == "__main__":
    main()
