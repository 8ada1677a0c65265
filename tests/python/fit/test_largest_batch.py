"""`oomproof fit --max-batch`: both ends of its answer by runs of their own, with all of the card and with a margin."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Dict

import pytest
from fitting import oomproof

# Of few rows the optimizer's step decides, where rows make no difference. Each row is of 256 tokens.
SCRIPT = """
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=4)
rows = parser.parse_args().rows
model = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(6):
    loss = nn.functional.cross_entropy(
        model(torch.randn(rows * 256, 256, device="cuda")), torch.zeros(rows * 256, dtype=torch.long, device="cuda")
    )
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    model.eval()(torch.randn(rows * 256, 256, device="cuda"))
"""
MEMORY = 1100 << 20
MARGIN = 200 << 20


def on_card(folder: Path, verb: str, *arguments: str, memory: int = MEMORY) -> Dict[str, Any]:
    return oomproof(folder, verb, "--gpu", "rtx-4090", "--memory", f"{memory >> 20}MiB", *arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("largest")
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT))
    return folder


def check(folder: Path, margin: int, *typed: str) -> int:
    options = ["--margin", f"{margin >> 20}MiB"] if margin else []
    found = on_card(folder, "fit", "--max-batch=--rows", *options, "train.py", *typed)
    assert (found["code"], found["fits"], found["margin_bytes"]) == (0, True, margin), found["said"]
    largest: int = found["largest_batch"]
    assert found["max_batch"]["smallest_not_fitting"] == largest + 1
    # The margin is kept as memory that others hold; here the card is smaller instead.
    fits = on_card(folder, "run", "train.py", "--rows", str(largest), memory=MEMORY - margin)
    assert fits["code"] == 0 and fits["peak"]["process_bytes"]["likely"] <= MEMORY - margin
    does_not = on_card(folder, "run", "train.py", "--rows", str(largest + 1), memory=MEMORY - margin)
    assert (does_not["code"], does_not["verdict"]) == (10, "does_not_fit")
    return largest


def test_the_largest_batch_runs_and_the_next_does_not(folder: Path) -> None:
    largest = check(folder, 0, "--rows", "16")
    with_margin = check(folder, MARGIN, "--rows", "12")
    assert 4 < with_margin < largest
    # The next size goes through on the whole card, so that it is the margin that decides.
    assert on_card(folder, "run", "train.py", "--rows", str(with_margin + 1))["code"] == 0
