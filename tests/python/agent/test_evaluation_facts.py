"""Evaluation in the note that plans are made from, of scripts on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Run

# The model is evaluated before the first step and after the last; another model and a loss are no evaluation of it.
EVALUATED = """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
teacher, loss = nn.Linear(4, 3), nn.MSELoss()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
def evaluate(rows):
    model.eval()
    with torch.set_grad_enabled(rows == 64):
        for (x,) in DataLoader([(torch.randn(4),)] * 128, batch_size=rows):
            loss(model(x), teacher.eval()(x))
    model.train()
if FIRST:
    evaluate(FIRST)
for (x,) in DataLoader([(torch.randn(4),)] * 24, batch_size=8):
    with torch.no_grad():
        wanted = teacher(x)
    loss(model(x), wanted).backward()
    opt.step()
    opt.zero_grad()
if LAST:
    evaluate(LAST)
"""


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 0, None),
        (16, 0, {"grad_enabled": False, "batch": 16}),
        (0, 32, {"grad_enabled": False, "batch": 32}),
        (16, 64, {"grad_enabled": True, "batch": 64}),
    ],
)
def test_evaluation(first: int, last: int, expected: Any, tmp_path: Any, fake_device: Any, fake_standins: Any) -> None:
    script = EVALUATED.replace("FIRST", str(first)).replace("LAST", str(last))
    done = Run(tmp_path, fake_device, fake_standins)(script, probe=True, full=True)
    assert done.code == 0, done.err
    told = [note for note in done.notes if note["kind"] == "plan_facts"]
    assert len(told) == (2 if last else 1)
    assert told[-1]["evaluation"] == expected
    before, after = ({**note, "evaluation": None} for note in (told[0], told[-1]))
    assert before == after and before["batch"] == 8
