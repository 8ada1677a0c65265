"""What nobody knows is assumed so that a script goes on as it would, and the same way whatever ran before."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "policies.py"
PROGRAM = os.environ.get("OOMPROOF_BIN", str(HERE.parents[2] / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)


@functools.cache
def run(options: Tuple[str, ...] = (), cases: Tuple[str, ...] = ()) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """What each case gave, by its name, and the verdict."""
    command = [PROGRAM, "run", "--gpu", "h100", "--full", "--json", "--python", PYTHON, *options, str(SCRIPT), *cases]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines: List[Dict[str, Any]] = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"case"')]
    assert lines, done.stderr[-2000:]
    return {line["case"]: line for line in lines}, json.loads(done.stdout)


def result(case: str, options: Tuple[str, ...] = (), cases: Tuple[str, ...] = ()) -> Any:
    return run(options, cases)[0][case]["result"]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("masked_after_other_work", [1000, 1000, [1200, 2]]),
        ("many_masked", [3_000_000, 630_000]),
        ("a_part_and_the_rest", 1000),
        ("loss_over_chosen_rows", [240, 100]),
        ("distinct", [500, 500, 500, [500, 500, 500], [4, 60]]),
        ("sparse_gradient", [64, 8]),
        ("healthy", [False, False, True, True, True, False, True]),
        ("orders", [list(range(9)), [0, 1, 2], [0, 1, 2, 3, 4]]),
        ("experts", [[10] * 8, 16]),
        ("losses", True),
        ("a_loop_until_it_converges_ends", True),
        ("one_number_is_no_mask", [False, True, True]),
        ("a_plateau_is_not_seen", 1.0),
        ("scaled_steps_are_taken", [[3, 3], [3, 3]]),
        ("the_scale_stays", [[65536.0] * 4] * 9),
        ("a_minimizer_goes_on", [[5, 10, 15], [6, 12, 18]]),
        ("what_is_only_read_stays_known", [22, [22, 4], [[1], [2]]]),
        ("clipping_checks_the_norm", True),
        ("a_sampler_ends_at_its_limit", [3, 20]),
        ("beams_end_at_their_limit", [6, True]),
        ("slices_by_an_unknown_box_agree", True),
        ("some_of_the_best_pass_a_threshold", [225, 75]),
        ("an_answer_that_the_user_knows", 100),
    ],
)
def test_training_goes_on(case: str, expected: Any) -> None:
    assert result(case) == expected


def test_choices_fall_evenly() -> None:
    best, two, distinct, columns, sampled, tokens, shape = result("choices")
    assert len(set(best)) == 6 and distinct == 2 and len(columns) == 8
    assert sorted(two.count(number) for number in range(8)) == [1] * 4 + [2] * 4
    assert (sampled, tokens, shape) == ([6, 3], [True, True], [3, 3])


def test_choices_fall_on_the_same_when_asked() -> None:
    best, two, distinct, *_ = result("choices", ("--routing", "worst"), ("choices", "experts"))
    assert len(set(best)) == 1 and len(set(two)) == distinct == 2
    rows, with_gradients = result("experts", ("--routing", "worst"), ("choices", "experts"))
    assert sorted(rows) == [0] * 6 + [40, 40] and with_gradients == 4


def test_what_came_before_changes_nothing() -> None:
    """A figure is a function of the program: the same cases in another order allocate the same."""
    first, _ = run()
    backwards, _ = run((), tuple(reversed(list(first))))
    assert backwards == first


def test_the_user_has_the_last_word() -> None:
    line = next(at for at, text in enumerate(SCRIPT.read_text().splitlines(), 1) if text.endswith("# asked"))
    options = ("--assume", f"policies.py:{line}=7")
    assert result("an_answer_that_the_user_knows", options, ("an_answer_that_the_user_knows",)) == 7
    kinds = {each["kind"] for each in run(options, ("an_answer_that_the_user_knows",))[1]["assumptions"]}
    assert "given_value" in kinds and "assumed_value" not in kinds


def test_without_values_nothing_is_assumed() -> None:
    found, verdict = run(("--values", "off"), ("loss_over_chosen_rows", "experts"))
    assert found["loss_over_chosen_rows"]["result"] == [0, 100]
    assert "assumed_value" not in {each["kind"] for each in verdict["assumptions"]}


def test_every_assumption_is_said_where_it_is_read() -> None:
    text = SCRIPT.read_text().splitlines()
    places = {}
    for assumption in run()[1]["assumptions"]:
        if assumption["where"]:
            places.setdefault(assumption["kind"], set()).add(int(assumption["where"].rpartition(":")[2]))
    for kind, part in [
        ("assumed_value", "return y[y > 0].numel()"),
        ("assumed_value", "token, slot = torch.where"),
        ("assumed_health", "bool(torch.isnan(y)"),
        ("unknown_number", "read = [functional"),
        ("assumed_health", "scaler.step(optimizer)"),
    ]:
        number = next(at for at, line in enumerate(text, 1) if part in line)
        assert number in places[kind], f"{kind} at {part}: {places}"
