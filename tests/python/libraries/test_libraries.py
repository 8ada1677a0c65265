"""The closed libraries above CUDA: programs run to their end, figures are those of arithmetic, estimates have ranges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Dict, List, Tuple

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("OOMPROOF_BIN", str(HERE.parents[2] / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)
MIB = 1 << 20


@cache
def run(script: str, gpu: str) -> Tuple[Dict[str, Dict[str, Any]], Dict[str, Any]]:
    command = [PROGRAM, "run", "--gpu", gpu, "--full", "--json", "--python", PYTHON, str(HERE / script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"program"')]
    assert lines and done.stdout, done.stderr[-2000:]
    return {line["program"]: line for line in lines}, json.loads(done.stdout)


def failed(programs: Dict[str, Dict[str, Any]]) -> List[Tuple[str, str]]:
    return [(name, line["error"]) for name, line in programs.items() if line["error"]]


def assumed(verdict: Dict[str, Any], kind: str) -> List[str]:
    return [assumption["text"] for assumption in verdict["assumptions"] if assumption["kind"] == kind]


def test_linear_algebra_and_transforms_run():
    programs, verdict = run("linear_algebra.py", "a100-80gb")
    assert len(programs) > 30
    assert failed(programs) == []
    assert verdict["unsupported"] == []


def test_a_transform_takes_its_output_and_one_copy():
    programs, _ = run("linear_algebra.py", "a100-80gb")
    assert programs["fft"]["above"] == 2 * 8 * MIB


def test_scratch_memory_is_an_estimate_with_a_range():
    _, verdict = run("linear_algebra.py", "a100-80gb")
    said = " ".join(assumed(verdict, "library_scratch"))
    for library in ("cuSOLVER", "Fourier transforms", "may be"):
        assert library in said
    process, context = verdict["peak"]["process_bytes"], verdict["context_bytes"]
    # NVIDIA documents up to eight copies of the transformed data.
    assert process["high"] - process["likely"] >= context["high"] - context["likely"] + 8 * 8 * MIB
    assert process["low"] < process["likely"]


def test_sparse_matrices_run():
    programs, verdict = run("sparse.py", "a100-80gb")
    assert len(programs) > 20
    assert failed(programs) == []
    assert verdict["unsupported"] == []
    assert "cuSPARSE" in " ".join(assumed(verdict, "library_scratch"))


def test_elements_of_small_sparse_results_are_counted():
    programs, _ = run("sparse.py", "a100-80gb")
    # Row 0 of the square has three elements, row 3 two, row 5 two; on average it would be six.
    assert programs["sparse by sparse"]["result"] == 7
    assert programs["compressed by compressed"]["result"] == 7
    # Both have their elements at the same places.
    assert programs["sum of compressed"]["result"] == 6


def test_networks_run():
    programs, verdict = run("networks.py", "h100")
    assert len(programs) > 40
    assert failed(programs) == []
    assert verdict["unsupported"] == []
    assert (verdict["script"]["exit_code"], verdict["script"]["signal"]) == (0, None)


def test_convolutions_take_copies_in_the_layout_of_tensor_cores():
    programs, _ = run("networks.py", "h100")
    image, filters = 8 * 64 * 32 * 32 * 2, 64 * 64 * 9 * 2
    assert programs["convolution, channels last"]["result"] == image
    assert programs["convolution"]["result"] == 3 * image + filters
    assert programs["convolution, single precision"]["result"] == 2 * (3 * image + filters)


def test_benchmark_mode_also_tries_what_takes_more():
    programs, _ = run("networks.py", "h100")
    image, filters = 4 * 64 * 32 * 32, 64 * 64 * 9
    tiles = (2 * image * 36 // 16 + filters * 36 // 9) * 4
    assert programs["convolution, benchmark"]["result"] == 2 * image + tiles
