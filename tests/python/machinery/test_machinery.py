"""PyTorch's own machinery works on the virtual device as it does on a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("OOMPROOF_BIN", str(HERE.parents[2] / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)


def run(
    script: str, *options: str, environment: Mapping[str, str] = os.environ
) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """What each function of the script found, and the verdict."""
    command = [PROGRAM, "run", "--gpu", "h100", "--full", "--json", "--python", PYTHON, *options, str(HERE / script)]
    environment = {**os.environ, **environment, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"what"')]
    assert lines and done.stdout, done.stderr[-3000:]
    return {line["what"]: line["got"] for line in lines}, json.loads(done.stdout)


def check(found: Dict[str, Any], expected: Dict[str, Any]) -> None:
    assert {what: found.get(what) for what in expected} == expected
    assert found.keys() == expected.keys()


NOT_PERMITTED = "CUDA error: operation not permitted when stream is capturing"


def test_graphs() -> None:
    found, verdict = run("graphs.py")
    check(found, {
        "constants_are_written_at_each_replay": [[0.0] * 4, [3.0] * 4, [3.0] * 4],
        "pinned_memory_is_read_and_written_at_each_replay": [1.0, 2.0, 3.0, 4.0],
        "whole_training_steps_are_captured": 0,
        "modules_are_graphed": [[64, 64], [64]],
        "what_is_illegal_while_capturing_raises": {
            "item": NOT_PERMITTED,
            "synchronize": NOT_PERMITTED,
            "stream_synchronize": NOT_PERMITTED,
            "nonzero": NOT_PERMITTED,
            "query": "CUDA error: operation not permitted on an event last recorded in a capturing stream",
            "unjoined": "CUDA error: capturing stream has unjoined work",
        },
        "the_device_goes_on_after_a_failed_capture": [1.0, 1.0],
        "streams_that_join_are_part_of_the_graph": [5.0] * 4,
        "a_stream_knows_that_it_captures": [False, True, False],
        # Inputs, what the graphs share, and a result of each; then without the inputs; then nothing.
        "private_pools_keep_their_memory_until_their_graphs_end": [16 + 16 + 3 * 16, 16 + 3 * 16, 0],
        "random_numbers_are_captured": [4],
    })  # fmt: skip
    assert verdict["verdict"] == "fits"


def test_memory() -> None:
    found, verdict = run("memory.py")
    mib = 1 << 20
    check(found, {
        # The child holds what it made itself and none of what it was sent; so does its parent.
        "tensors_go_to_other_processes_and_come_back": [[[64 * mib], "cuda:0", 0], 4, [4 * mib], "cuda:0", 64, 0],
        "pinned_memory_is_known": [False, True, True, False],
        "pinned_memory_is_freed": [True, True],
        "managed_memory_is_the_hosts_too": [0, 0, 1, 0, 7, 0],
        "a_pool_of_ones_own": [16, 16, 0],
        "the_history_of_memory_is_recorded": [[16], 16],
        "streams_have_priorities_and_come_from_outside": [-1, [1.0, 1.0, 1.0]],
    })  # fmt: skip
    assert verdict["unsupported"] == []
    assert [each["kind"] for each in verdict["assumptions"] if each["kind"] == "managed_memory"] == ["managed_memory"]


def test_times() -> None:
    found, verdict = run("times.py")
    check(found, {
        "larger_work_takes_longer": [True, True],
        "times_are_those_of_the_card": 0.9,
        "times_repeat_and_are_never_none": [1, True, True],
        "streams_go_on_beside_each_other": [True, True],
        "memory_of_other_streams": True,
    })  # fmt: skip
    assert [each["kind"] for each in verdict["assumptions"] if each["kind"] == "streams_at_rest"] == ["streams_at_rest"]


def test_nvidia_smi() -> None:
    found, _ = run("smi.py")
    check(found, {
        "memory_is_what_the_device_says": [0, True, True, True],
        "the_card_is_named": [True, True],
        "all_forms": [
            [0, "index, temperature.gpu, utilization.gpu\n0, [N/A], [N/A]\n"],
            [0, "1\n"],
            [2, 'Field "nonsense" is not a valid field to query of this virtual device.\n'],
            [2, "The virtual nvidia-smi does not know `topo -m`.\n"],
            [2, "No devices were found\n"],
            [True, True],
        ],
    })  # fmt: skip
