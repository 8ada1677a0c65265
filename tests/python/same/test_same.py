"""PyTorch on the virtual device allocates what its rules say, in every figure of `memory_stats()` that they decide."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("OOMPROOF_BIN", str(HERE.parents[2] / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)
# `cargo xtask versions` sets it: two cards, whose workspaces of cuBLAS differ, and programs that take long to start.
IS_LONG = "OOMPROOF_LONG" in os.environ
CARDS = ("h100", "a100-40gb") if IS_LONG else ("h100",)


@pytest.mark.parametrize("card", CARDS)
def test_every_program_allocates_what_the_rules_say(card):
    long, slow = (["--timeout", "60m"], ["--slow"]) if IS_LONG else ([], [])
    command = [PROGRAM, "run", "--gpu", card, "--full", "--json", *long, "--python", PYTHON]
    command += [str(HERE / "run_all.py"), *slow]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    programs = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"program"')]
    assert len(programs) >= 30, done.stderr[-2000:]
    assert json.loads(done.stdout)["script"]["exit_code"] == 0, "the programs were cut short"
    wrong = {each["program"]: differences(each) for each in programs if each["device"] != each["rules"]}
    assert wrong == {}


def differences(program):
    """Figure, the device's and the rules', at the first mark where they differ."""
    for at, (device, rules) in enumerate(zip(program["device"], program["rules"])):
        if device != rules:
            keys = device.keys() | rules.keys()
            return at, {key: (device.get(key), rules.get(key)) for key in keys if device.get(key) != rules.get(key)}
    return f"{len(program['device'])} marks and {len(program['rules'])}"
