"""A plan says whether random numbers are others under it: with dropout they are, without it they are not."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Dict

import pytest
from fitting import CONTEXT, all_but, oomproof

# Activations are most of what it takes: 2 * 2048 * 8192 numbers, and as many gradients.
SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(16384, 64), torch.randint(0, 10, (16384,)))
model = nn.Sequential(nn.Linear(64, 8192), nn.ReLU(), nn.Dropout(RATE), nn.Linear(8192, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=2048):
    nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LEFT = "micro-batch"


def found(folder: Path, rate: str, *options: str) -> Dict[str, Any]:
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT.replace("RATE", rate)))
    memory = f"{CONTEXT + 160}MiB"
    card = ["--gpu", "rtx-4090", "--memory", memory]
    return oomproof(folder, "fit", *card, "--without", all_but(LEFT), *options, "train.py")


@pytest.mark.parametrize(("rate", "expected"), [("0.5", "redrawn"), ("0.0", "rounding")])
def test_dropout_is_drawn_anew_for_the_parts(tmp_path: Path, rate: str, expected: str) -> None:
    report = found(tmp_path, rate)
    assert report["code"] == 0, report["said"]
    chosen = report["plans"][report["chosen"]]
    assert [lever["name"] for lever in chosen["levers"]] == [LEFT]
    assert chosen["numerics"] == expected
    assert (chosen["numerics_reason"] is not None) == (expected == "redrawn")
    plan = (tmp_path / "plan.toml").read_text()
    assert f'numerics = "{expected}"' in plan
    assert ("numerics_reason = " in plan) == (expected == "redrawn")


@pytest.mark.parametrize(
    ("rate", "option", "fits"), [("0.5", "", False), ("0.5", "=rounding", False), ("0.0", "=rounding", True)]
)
def test_the_same_numbers_are_kept_where_that_is_asked_for(tmp_path: Path, rate: str, option: str, fits: bool) -> None:
    report = found(tmp_path, rate, f"--keep-numerics{option}")
    assert report["fits"] == fits, report["said"]
    barred = [each["numerics"] for each in report["not_allowed"] if each["lever"]["name"] == LEFT]
    assert barred == ([] if fits else ["redrawn"])
