"""Small work on known values is really done: the device gives what the host computes, in every operation tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("OOMPROOF_BIN", str(HERE.parents[2] / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)


def test_the_device_gives_what_the_host_computes():
    command = [PROGRAM, "run", "--gpu", "h100", "--full", "--json", "--python", PYTHON, str(HERE / "operations.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    results = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"what"')]
    assert len(results) > 800, done.stderr[-2000:]
    assert [result["what"] for result in results if not result["same"]] == []
    verdict = json.loads(done.stdout)
    assert [each["text"] for each in verdict["assumptions"] if each["kind"] == "unknown_value"] == []


def test_what_is_overwritten_is_no_longer_known():
    script = HERE / "overwritten.py"
    command = [PROGRAM, "run", "--gpu", "h100", "--full", "--json", "--python", PYTHON, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = script.read_text().splitlines()
    reads = sum(line.startswith("check(") for line in lines)
    assert f"{reads} reads" in done.stderr
    verdict = json.loads(done.stdout)
    count = 0
    for assumption in verdict["assumptions"]:
        if assumption["kind"] == "unknown_value":
            times = assumption["text"].rpartition("; ")[2].removesuffix(" times")
            count += int(times) if times.isdigit() else 1
    assert count == reads
