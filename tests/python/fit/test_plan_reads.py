"""What a lever of a plan reads of the device is told as the plan's, and not as the script's."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Dict, List

from fitting import oomproof

SCRIPT = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = model(torch.randn(512, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    OWN
"""
PLAN = """
schema = 1
[[lever]]
name = "activation-offload"
least_bytes = 1024
[[lever]]
name = "optimizer-offload"
"""
READS = {"unknown_value", "unknown_number", "unknown_data", "assumed_value", "assumed_health", "plan_reads"}


def reads(folder: Path, own: str, *options: str) -> List[Dict[str, Any]]:
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT).replace("OWN", own))
    (folder / "plan.toml").write_text(PLAN)
    done = oomproof(folder, "run", "--gpu", "rtx-4090", *options, "train.py")
    assert done["code"] == 0, done["said"]
    return [each for each in done["assumptions"] if each["kind"] in READS]


def test_reads_of_levers_are_the_plan_s(tmp_path: Path) -> None:
    assert reads(tmp_path, "pass") == []
    planned = reads(tmp_path, "pass", "--plan", "plan.toml")
    assert {each["kind"] for each in planned} == {"plan_reads"}
    assert {
        name for name in ("activation-offload", "optimizer-offload") for each in planned if name in each["text"]
    } == {
        "activation-offload",
        "optimizer-offload",
    }


def test_reads_of_the_script_stay_the_script_s(tmp_path: Path) -> None:
    own = "print(float(model[0].weight[0, 0]))"
    alone, planned = reads(tmp_path, own), reads(tmp_path, own, "--plan", "plan.toml")
    assert [each["where"] for each in alone] == [each["where"] for each in planned if each["where"]] != []
