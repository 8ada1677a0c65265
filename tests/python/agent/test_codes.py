"""The agent's codes are those of the profile."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "python" / "oomproof" / "agent"))

from _oomproof_agent import names  # noqa: E402

RUST = (ROOT / "crates/profile/src/names.rs").read_text()
LAYOUT = (ROOT / "crates/profile/src/layout.rs").read_text()


def test_interface():
    calls = (ROOT / "crates/vgpu/src/agent.rs").read_text()
    found = re.search(r"const INTERFACE: u32 = (\d+);", calls)
    assert found is not None and int(found.group(1)) == names.INTERFACE


@pytest.mark.parametrize("word", names.PHASES)
def test_phases(word):
    code = re.search(rf'= (\d+) => "{word}"', RUST[RUST.index("Phase {") :])
    assert code is not None and int(code.group(1)) == names.PHASES.index(word) == getattr(names, word.upper())


@pytest.mark.parametrize("word", ["parameter", "gradient", "optimizer state", "buffer"])
def test_roles(word):
    code = re.search(rf'= (\d+) => "{word}"', RUST[RUST.index("Role {") :])
    assert code is not None and int(code.group(1)) == getattr(names, word.upper().replace(" ", "_"))


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("STATE_AT", "STATE"),
        ("COUNTERS_AT", "COUNTERS"),
        ("N_COUNTERS", "N_COUNTERS"),
        ("PEAK_ALLOCATED", "PEAK_ALLOCATED"),
        ("STEP_PEAK_ALLOCATED", "STEP_PEAK_ALLOCATED"),
        ("STEP_PEAK_RESERVED", "STEP_PEAK_RESERVED"),
        ("EVENTS", "EVENTS"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("DEVICE_TIME", "DEVICE_TIME"),
    ],
)
def test_offsets(here, there):
    found = re.search(rf"const {there}: usize = (\d+);", LAYOUT)
    assert found is not None and int(found.group(1)) == getattr(names, here)
