"""Small work on known values is really done: the device gives what the host computes, or says that it does not know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("OOMPROOF_BIN", str(HERE.parents[2] / "target" / "release" / "oomproof"))
# What was read and is not known for sure.
READS = ("unknown_value", "unknown_number", "assumed_value", "assumed_health")
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)

# Compiled at run time, computed by a library, or not carried out: these stay unknown.
NOT_DONE = {"prod", "product", "combinations", "coalesced", "linspace", "of a base"}


def test_no_value_is_wrong_and_those_that_are_done_are_known():
    command = [PROGRAM, "run", "--gpu", "h100", "--full", "--json", "--python", PYTHON, str(HERE / "cases.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"what"')]
    assert len(results) > 1300, done.stderr[-2000:]
    assumed = set()
    for assumption in json.loads(done.stdout)["assumptions"]:
        if assumption["kind"] in READS:
            assumed.add(int(assumption["where"].rpartition(":")[2]))
    unknown = {result["what"] for result in results if not assumed.isdisjoint(result["lines"])}
    assert [r["what"] for r in results if r["same"] is not True and r["what"] not in unknown] == []
    # Kernels differ between releases; `cargo xtask versions` sets it, to find wrong values in any.
    if "OOMPROOF_LONG" not in os.environ:
        assert {what.rpartition(" ")[0] for what in unknown} - NOT_DONE == set()
