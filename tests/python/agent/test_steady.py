"""When a run may stop: peaks of steps in, a reason and a step out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "python" / "oomproof" / "agent"))

from _oomproof_agent.steady import Steady

MIB = 1 << 20


def check(
    peaks, expected, *, reserved=None, forward=False, steps=None, full=False, over_data=False, ragged=False, least=3
):
    steady = Steady(steps=steps, full=full, least=least)
    if over_data:
        steady.pass_begins()
    steady.ragged = ragged
    reserved = reserved or [0] * len(peaks)
    ended = steady.forward_ended if forward else steady.ended
    found = (None, len(peaks))
    for number, (peak, held) in enumerate(zip(peaks, reserved), start=1):
        reason = ended(allocated=peak, reserved=held)
        if reason is not None:
            found = (reason, number)
            break
    assert found == expected


TURNS = [10 * MIB, 40 * MIB, *[35 * MIB, 36 * MIB] * 20]
RAGGED = [(number * 7 % 5 + 1) * MIB for number in range(50)]


@pytest.mark.parametrize(
    ("peaks", "expected", "settings"),
    [
        ([10, 20 * MIB, 20 * MIB, 20 * MIB], ("steady", 3), {}),
        ([30 * MIB, 20 * MIB, 20 * MIB], ("steady", 3), {}),
        ([10 * MIB, 10 * MIB], (None, 2), {}),
        ([10 * MIB] * 50, ("steady", 8), {"least": 8}),
        ([10 * MIB] * 50, ("steady", 9), {"least": 8, "reserved": [1, 2, 2, 2, 2, 2, 2, *[3] * 50]}),
        ([10 * MIB, 20 * MIB, 30 * MIB, 30 * MIB + 511], ("steady", 4), {}),
        ([10 * MIB, 20 * MIB, 30 * MIB, 30 * MIB + 512], (None, 4), {}),
        ([10 * MIB] * 4, ("steady", 4), {"reserved": [1, 2, 3, 3]}),
        ([10 * MIB] * 4, (None, 4), {"reserved": [1, 2, 3, 4]}),
        ([number * MIB for number in range(1, 50)], ("growing", 10), {}),
        ([MIB + number * 512 for number in range(1, 50)], ("growing", 10), {}),
        (RAGGED, ("varying", 30), {}),
        (TURNS, ("varying", 30), {}),
        (TURNS, ("steady", 8), {"over_data": True}),
        (TURNS, ("varying", 8), {"over_data": True, "ragged": True}),
        (TURNS, ("varying", 30), {"over_data": True, "reserved": list(range(50))}),
        ([*TURNS[:7], 50 * MIB, *TURNS], ("steady", 13), {"over_data": True}),
        ([0] * 50, (None, 50), {}),
        ([MIB] * 50, (None, 50), {"full": True}),
        ([MIB] * 50, ("steps", 1), {"steps": 1}),
        (RAGGED, ("steps", 40), {"steps": 40}),
        ([MIB] * 50, ("steady", 9), {"forward": True}),
        ([number * MIB for number in range(1, 50)], (None, 49), {"forward": True}),
        ([*(number * MIB for number in range(1, 20)), *[MIB] * 20], ("steady", 27), {"forward": True}),
        ([MIB] * 50, ("steps", 2), {"forward": True, "steps": 2}),
    ],
)
def test_stops(peaks, expected, settings):
    check(peaks, expected, **settings)
