"""A notebook runs as "Restart and run all" would, without Jupyter."""

from __future__ import annotations

import json

from virtual_run import Program

CELLS = [
    "# Train",
    "!pip install torch\n%matplotlib inline\nimport json, os, sys\nimport torch",
    "%%time\nmodel = torch.nn.Linear(1024, 1024).cuda()\nrows = int(open('rows.txt').read())",
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    "for step in range(4):\n    loss = model(torch.randn(rows, 1024).cuda()).sum()\n"
    "    loss.backward()\n    optimizer.step()\n    count = int((loss > 0).sum())",
    # The value of a cell is kept, and so is every variable.
    "torch.ones(1 << 20, device='cuda')",
    "print('RESULT', json.dumps({'args': sys.argv[1:], 'held': torch.cuda.memory_allocated()}))\n"
    "print('RESULT', json.dumps({'count': count}))",
    "\nraise ValueError('the end')",
]


def notebook() -> str:
    kinds = ["markdown"] + ["code"] * (len(CELLS) - 1)
    cells = [{"cell_type": kind, "source": source} for kind, source in zip(kinds, CELLS)]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": cells})


RUN = Program(
    "",
    ["--gpu", "t4", "--full", "--assume", "train.ipynb[cell 3]:6=5"],
    arguments=["--x"],
    files={"deep/train.ipynb": notebook(), "deep/rows.txt": "64"},
    target=("deep/train.ipynb",),
)


def test_cells_run_in_order_in_the_folder_of_the_notebook() -> None:
    finished = RUN.result()
    assert finished.results["args"] == ["--x"], finished.err
    assert finished.verdict["steps_measured"] == 4
    # The parameters, their gradients and the value that cell 4 ended with.
    assert finished.results["held"] >= 2 * 4 * 1024 * 1025 + (4 << 20)


def test_lines_of_jupyter_are_listed() -> None:
    finished = RUN.result()
    listed = [(each["text"], each["where"].rpartition("/")[2]) for each in finished.assumptions("not_run")]
    assert listed == [
        ("not run: `!pip install torch`", "train.ipynb[cell 1]:1"),
        ("not run: `%matplotlib inline`", "train.ipynb[cell 1]:2"),
    ]


def test_places_are_cells_and_lines() -> None:
    finished = RUN.result()
    sites = {(site["file"].rpartition("/")[2], site["line"]) for site in finished.peak["sites"]}
    assert ("train.ipynb[cell 4]", 1) in sites or ("train.ipynb[cell 2]", 2) in sites, sites
    assert "train.ipynb[cell 6]:2" in finished.verdict["reasons"][0]["text"]
    assert 'deep/train.ipynb[cell 6]", line 2' in finished.err
    assert "raise ValueError('the end')" in finished.err
    assert "_oomproof_agent" not in finished.err
    assert finished.results["count"] == 5
