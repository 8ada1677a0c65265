"""Several ranks on virtual GPUs: what they exchange arrives, memory adds up, all stop together, and a rank that fails is
named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Dict, Tuple

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("OOMPROOF_BIN", str(HERE.parents[2] / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)
MIB = 1 << 20
PARAMETERS = 4 * 1024 * 1024 * 4


@cache
def run(*arguments: str) -> Tuple[Dict[str, Any], Dict[str, Dict[int, Any]], int]:
    """The verdict, what each rank found, and the exit code."""
    command = [PROGRAM, "run", "--gpu", "h100", "--ranks", "2", "--json", "--timeout", "300s", "--python", PYTHON]
    done = subprocess.run([*command, str(HERE / "train.py"), *arguments], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-3000:]
    findings: Dict[str, Dict[int, Any]] = {}
    for line in done.stderr.splitlines():
        if line.startswith('{"rank"'):
            finding = json.loads(line)
            findings.setdefault(finding["what"], {})[finding["rank"]] = finding["value"]
    return json.loads(done.stdout), findings, done.returncode


def check(what: str, first: Any, second: Any) -> None:
    _, findings, _ = run()
    assert findings[what] == {0: first, 1: second}, what


def test_what_is_sent_arrives():
    check("devices", 2, 2)
    check("sum", [3.0, 5.0], [3.0, 5.0])
    check("objects", [10, 20], [10, 20])
    check("uneven", [0, 100, 101], [1, 2, 102, 103, 104])
    check("alone", [0.0], [1.0])
    check("part", [0.5], [5.0])
    _, findings, _ = run()
    assert findings["message"] == {1: [7, 8]}


def test_memory_is_shared_out():
    _, findings, _ = run()
    # Parameters and the two states of AdamW, which has a step count of 4 bytes for each of four tensors.
    states = 3 * PARAMETERS
    for rank in (0, 1):
        assert states // 2 <= findings["sharded"][rank] <= states // 2 + MIB
        # And the gradients, which DDP keeps in its buckets.
        assert states + PARAMETERS <= findings["whole"][rank] <= states + PARAMETERS + MIB


def test_all_ranks_leave_a_loop_together():
    verdict, findings, code = run()
    assert (verdict["verdict"], verdict["reasons"], code) == ("fits", [], 0)
    batches = findings["batches"]
    assert batches[0] == batches[1] < 100
    check("batches of all", [2 * batches[0]], [2 * batches[1]])
    ranks = verdict["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert [rank["device"] for rank in ranks] == [0, 1]
    assert ranks[0]["steps_measured"] == ranks[1]["steps_measured"] == batches[0] + 2
    assert verdict["rank"] in (0, 1)
    kinds = {assumption["kind"] for assumption in verdict["assumptions"]}
    assert not kinds & {"rank_ended", "ranks_disagree", "rank_missing"}


def test_memory_of_communicators_is_an_estimate():
    verdict, _, _ = run()
    library = verdict["library_bytes"]
    assert 0 < library["low"] < library["likely"] < library["high"]


def test_a_rank_that_fails_is_named():
    verdict, _, code = run("--fail")
    assert (verdict["verdict"], code, verdict["rank"]) == ("unknown", 3, 1)
    (reason,) = [reason for reason in verdict["reasons"] if reason["kind"] == "script_failed"]
    assert "ValueError: this rank fails" in reason["text"]
