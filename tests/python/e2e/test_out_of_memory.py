"""A card that is too small: PyTorch's own error, and what the verdict makes of it."""

from __future__ import annotations

import re

import pytest
from virtual_run import Program

MODEL = """
import torch, torch.nn as nn
def train(rows, *, layers=8, steps=4):
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(layers)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(torch.randn(rows, 2048).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""

UNCAUGHT = Program(
    MODEL
    + """
try:
    train(40000)
except torch.OutOfMemoryError as error:
    result(
        message=str(error), allocated=torch.cuda.memory_allocated(), peak=torch.cuda.max_memory_allocated(),
        info=torch.cuda.mem_get_info(),
    )
    raise
""",
    ["--memory", "1GiB"],
)

CAUGHT = Program(
    MODEL
    + """
rows = 40000
while rows:
    try:
        train(rows, layers=2)
        break
    except torch.cuda.OutOfMemoryError as error:
        result(message=str(error))
    rows //= 8
    gc.collect()
    torch.cuda.empty_cache()
""",
    ["--memory", "1GiB"],
)

SMALL_REQUEST = Program(
    """
    import torch
    keep = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda")]
    free = torch.cuda.mem_get_info()[0]
    keep.append(torch.empty((free >> 20) - 8 << 20, dtype=torch.uint8, device="cuda"))
    torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
    """,
    ["--memory", "1GiB"],
)

LATER = {
    phase: Program(
        MODEL
        + f"""
torch.cuda.set_per_process_memory_fraction({mebibytes} / 1024)
try:
    train(64)
except torch.OutOfMemoryError as error:
    result(message=str(error))
    raise
""",
        ["--memory", "1GiB"],
    )
    for phase, mebibytes in (("load", 100), ("backward", 240), ("optimizer", 400))
}

TRAINED_ON_MORE = Program(MODEL + "train(40000)\n", ["--memory", "16GiB", "--steps", "2"])


def test_an_uncaught_error_does_not_fit() -> None:
    finished = UNCAUGHT.result()
    oom = finished.verdict["oom"]
    assert (finished.code, finished.verdict["verdict"], finished.reasons()) == (10, "does_not_fit", ["out_of_memory"])
    assert oom["message"] == finished.results["message"]
    assert oom["message"].startswith("CUDA out of memory. Tried to allocate ")
    assert (oom["survived"], oom["phase"]) == (False, "forward")
    assert finished.verdict["script"] == {"exit_code": 1, "signal": None}
    assert "torch.OutOfMemoryError: CUDA out of memory" in finished.err


def test_the_figures_of_the_error_are_the_message_s() -> None:
    oom = UNCAUGHT.result().verdict["oom"]
    tried = re.search(r"Tried to allocate ([0-9.]+) MiB", oom["message"])
    assert tried is not None
    assert abs(oom["tried_bytes"] - float(tried[1]) * 2**20) <= 0.005 * 2**20 + 1
    assert oom["requested_bytes"] == 40000 * 2048 * 4
    assert sum(oom["held_by"].values()) >= UNCAUGHT.result().results["allocated"]
    assert oom["where"].split(":")[0].endswith("train.py")


@pytest.mark.parametrize(
    ("phase", "line", "requested"),
    [
        ("load", ".cuda()", 2048 * 2048 * 4),
        # What `:4096:2:16:8` stands for, the default workspace of a cuBLAS handle on this architecture.
        ("backward", ".backward()", (2 * 4096 + 8 * 16) * 1024),
        ("optimizer", "optimizer.step()", 2048 * 2048 * 4),
    ],
)
def test_the_phase_and_the_line_are_named(phase: str, line: str, requested: int) -> None:
    finished = LATER[phase].result()
    oom = finished.verdict["oom"]
    assert (finished.code, oom["phase"], oom["message"]) == (10, phase, finished.results["message"])
    assert oom["requested_bytes"] == requested
    # The script limited itself, so no other card is the answer.
    assert oom["would_have_fitted_bytes"] is None
    number = int(oom["where"].split(":")[1].split()[0])
    assert line in (finished.folder / "train.py").read_text().splitlines()[number - 1]


def test_the_same_request_succeeds_where_it_is_said_to() -> None:
    enough = UNCAUGHT.result().verdict["oom"]["would_have_fitted_bytes"]
    assert 2**30 < enough <= TRAINED_ON_MORE.result().peak["process_bytes"]["high"]
    assert TRAINED_ON_MORE.result().verdict["verdict"] == "fits"


def test_an_error_that_the_script_survives() -> None:
    finished = CAUGHT.result()
    assert finished.code == 0, finished.err
    assert finished.verdict["verdict"] in ("fits", "tight")
    oom = finished.verdict["oom"]
    assert (oom["survived"], oom["message"]) == (True, finished.results["message"])
    assert finished.verdict["steps_measured"] >= 3


def test_what_was_requested_is_not_the_segment_that_was_tried() -> None:
    oom = SMALL_REQUEST.result().verdict["oom"]
    assert (oom["requested_bytes"], oom["tried_bytes"]) == (3 << 20, 20 << 20)
    assert SMALL_REQUEST.result().code == 10
