"""`oomproof fit` on a small script: the plan it finds, with forks and without, and what the plan does."""

from __future__ import annotations

import json
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest
from fitting import CONTEXT, PROGRAM, PYTHON, all_but

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 10, (4096,)))
model = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for x, y in DataLoader(data, batch_size=256):
    nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# What is cached of the one block is too small for the other, so that both are reserved where there is room.
CACHING = (
    SCRIPT
    + """
    for size in (700, 800):
        work = torch.empty(size << 20, dtype=torch.uint8, device="cuda")
        del work
"""
)
# Evaluation takes more than training does: 128 MiB for each of the layers that are alive at a time.
EVALUATING = SCRIPT.replace("4096, 64), torch.randint(0, 10, (4096", "32768, 64), torch.randint(0, 10, (32768") + (
    """
model.eval()
with torch.no_grad():
    for x, y in DataLoader(data, batch_size=8192):
        model(x.cuda())
"""
)
# One lever is left, with two settings: the search is as short as it can be.
LEFT = "optimizer-implementation"


def start(folder: Path, verb: str, *options: str, script: str = "train.py") -> subprocess.Popen[str]:
    command = [PROGRAM, verb, "--gpu", "rtx-4090", "--python", PYTHON, "--json", *options, script]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> Dict[str, Any]:
    out, err = process.communicate(timeout=300)
    assert out, err
    found: Dict[str, Any] = json.loads(out)
    return {**found, "code": process.returncode, "said": err}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT))
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> List[Dict[str, Any]]:
    """What is found with forks and without, on a card on which the script itself does not fit."""
    # Four times the parameters, the temporaries of the optimizer's step, which are a fifth, and the context.
    parameters = 4 * 4096 * (64 + 4096 + 10) / (1 << 20)
    memory = f"{int(4.85 * parameters) + CONTEXT}MiB"
    options = ["--memory", memory, "--without", all_but(LEFT)]
    forked = start(folder, "fit", *options, "-o", "forked.toml")
    anew = start(folder, "fit", *options, "-o", "anew.toml", "--no-forks")
    return [ended(forked), ended(anew)]


def test_a_plan_is_found_and_verified(found: List[Dict[str, Any]], folder: Path) -> None:
    forked = found[0]
    assert forked["code"] == 0, forked["said"]
    chosen = forked["plans"][forked["chosen"]]
    assert [lever["name"] for lever in chosen["levers"]] == [LEFT]
    assert chosen["verified"] and chosen["fits"] and forked["fits"] and forked["finished"]
    assert chosen["peak_allocated_bytes"] < forked["base"]["peak_allocated_bytes"]
    planned = ended(start(folder, "run", "--plan", "forked.toml"))
    assert planned["peak"]["allocated_bytes"] == chosen["peak_allocated_bytes"]


def test_forks_change_no_answer(found: List[Dict[str, Any]], folder: Path) -> None:
    forked, anew = ({**each, "plan_file": None, "said": None} for each in found)
    assert forked == anew
    assert (folder / "forked.toml").read_text() == (folder / "anew.toml").read_text()


def test_what_fits_needs_no_plan(folder: Path) -> None:
    already = ended(start(folder, "fit", "-o", "none.toml"))
    assert (already["code"], already["fits"], already["chosen"]) == (0, True, None)
    assert already["base"]["given_back"]["times"] == 0 and already["tried"] == 0
    assert not (folder / "none.toml").exists()


def test_what_fits_is_made_faster_when_it_is_asked_for(folder: Path) -> None:
    faster = ended(start(folder, "fit", "--faster", "--without", all_but(LEFT), "-o", "faster.toml"))
    assert (faster["code"], faster["fits"], faster["fits_as_it_is"]) == (0, True, True), faster["said"]
    chosen = faster["plans"][faster["chosen"]]
    assert chosen["verified"] and chosen["relative_time"] <= 0.98
    assert [(lever["name"], lever["implementation"]) for lever in chosen["levers"]] == [(LEFT, "fused")]
    assert (folder / "faster.toml").exists()


def test_what_fits_only_when_memory_is_given_back_has_a_faster_plan(folder: Path) -> None:
    (folder / "caching.py").write_text(textwrap.dedent(CACHING))
    peak = ended(start(folder, "run", script="caching.py"))["peak"]
    spare = peak["reserved_bytes"] - peak["allocated_bytes"]
    assert spare > 700 << 20
    memory = f"{(peak['process_bytes']['likely'] - spare // 2) >> 20}MiB"
    options = ["--memory", memory, "--without", all_but(LEFT), "-o", "caching.toml"]
    found = ended(start(folder, "fit", *options, script="caching.py"))
    assert (found["code"], found["fits"], found["fits_as_it_is"]) == (0, True, True), found["said"]
    given_back = found["base"]["given_back"]
    assert given_back["times"] >= 1 and 1 <= given_back["steps"] <= given_back["of_steps"]
    chosen = found["plans"][found["chosen"]]
    assert chosen["verified"] and chosen["relative_time"] <= 0.98 and chosen["levers"]


def test_a_plan_that_fails_in_evaluation_is_replaced(folder: Path) -> None:
    (folder / "evaluating.py").write_text(textwrap.dedent(EVALUATING))
    # Parameters with their optimizer take 200 MiB, and evaluation 320 MiB of them and its layers.
    without = all_but(LEFT, "evaluation-batch")
    options = ["--memory", f"{CONTEXT + 430}MiB", "--without", without, "-o", "evaluating.toml"]
    found = ended(start(folder, "fit", *options, script="evaluating.py"))
    assert (found["code"], found["fits"], found["finished"]) == (0, True, True), found["said"]
    (rejected,) = found["rejected"]
    assert [lever["name"] for lever in rejected["levers"]] == [LEFT] and "evaluation" in rejected["reason"]
    chosen = found["plans"][found["chosen"]]
    assert [lever["name"] for lever in chosen["levers"]] == [LEFT, "evaluation-batch"]
    assert chosen["verified"] and chosen["peak_allocated_bytes"] < found["base"]["peak_allocated_bytes"]
    planned = ended(
        start(folder, "run", "--memory", f"{CONTEXT + 430}MiB", "--plan", "evaluating.toml", script="evaluating.py")
    )
    assert planned["code"] == 0 and planned["peak"]["allocated_bytes"] == chosen["peak_allocated_bytes"]


def test_what_fits_nowhere_has_a_floor(folder: Path) -> None:
    # Parameters, gradients and the optimizer's state, which no lever that is left makes smaller.
    least = 4 * 4 * 4096 * (64 + 4096 + 10)
    memory = f"{CONTEXT + (least >> 20) // 2}MiB"
    without = all_but(LEFT, "micro-batch", "allocator-settings")
    began = time.monotonic()
    found = ended(start(folder, "fit", "--memory", memory, "--without", without, "-o", "nothing.toml"))
    assert (found["code"], found["fits"], found["chosen"], found["finished"]) == (10, False, None, True), found["said"]
    assert not (folder / "nothing.toml").exists()
    assert 1 <= found["tried"] <= 6 and time.monotonic() - began < 60
    floor = found["floor"]
    assert floor["levers"] and found["floor_bytes"] == floor["process_bytes"]["likely"]
    # With what is reserved around it, and a context.
    assert least < floor["peak_allocated_bytes"] < 1.1 * least
    assert least + (CONTEXT << 20) < found["floor_bytes"] < 1.2 * least + (CONTEXT << 20)


def test_the_largest_batch_needs_a_loader_or_an_argument(folder: Path) -> None:
    raw = SCRIPT.replace(
        "in DataLoader(data, batch_size=256)", "in [data[at : at + 256] for at in range(0, 4096, 256)]"
    )
    (folder / "raw.py").write_text(textwrap.dedent(raw))
    found = ended(start(folder, "fit", "--max-batch", script="raw.py"))
    assert (found["code"], found["largest_batch"]) == (11, None), found["said"]
    assert "`fit --max-batch=--batch-size`" in found["max_batch"]["ended"]


def test_a_plan_for_another_script_is_refused(folder: Path) -> None:
    text = 'schema = 1\n[expects.modules]\n"blocks.0" = "Block"\n[[lever]]\nname = "activation-checkpointing"\n'
    (folder / "other.toml").write_text(text + 'modules = ["blocks.0"]\n')
    refused = ended(start(folder, "run", "--plan", "other.toml"))
    assert refused["code"] == 4
    assert refused["error"]["code"] == "plan_refused"
    assert "blocks.0" in refused["error"]["text"]
