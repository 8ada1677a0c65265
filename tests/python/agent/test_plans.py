"""The plan in the settings of a run is applied to a script that knows nothing of it."""

from __future__ import annotations

from typing import Any, Dict

import pytest

PRELUDE = """
import torch
from torch import nn
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        sizes.append(len(x))
        return self.head(self.body(x))
sizes = []
"""
LOOP = """
net = Net()
opt = torch.optim.AdamW(net.parameters())
for x, y in DataLoader(list(zip(torch.randn(16, 4), torch.randn(16, 2))), batch_size=8):
    opt.zero_grad()
    nn.functional.mse_loss(net(x), y).backward()
    opt.step()
print(sizes, "forward" in vars(net.body), opt.param_groups[0]["foreach"])
"""

CHECKPOINT = {"name": "activation-checkpointing", "modules": ["body"]}
FORLOOP = {"name": "optimizer-implementation", "implementation": "forloop"}
MICRO = {"name": "micro-batch", "chunks": 4}

ALL = [FORLOOP, CHECKPOINT, MICRO]

# At the three moments at which it may show: the start, the model's first call, a batch.
REFUSED = [
    ({"levers": [{"name": "magic"}]}, "magic", "there is no such lever"),
    ({"levers": [{**CHECKPOINT, "modules": ["bodies"]}]}, None, "the model has no module `bodies`"),
    ({"levers": [MICRO], "expects": {"batch": 9}}, "micro-batch", "the first batch had 9 rows when the plan was made, and has 8"),
]  # fmt: skip


def test_applied(run: Any) -> None:
    done = run(PRELUDE + LOOP, plan={"levers": ALL, "expects": {"parameters": 58, "batch": 8}}, full=True)
    assert (done.code, done.out) == (0, "[2, 2, 2, 2, 2, 2, 2, 2] True False\n"), done.err
    assert done.note("plan_applied")["levers"] == ALL
    assert done.of("step") == ["1", "2"]


@pytest.mark.parametrize(("plan", "lever", "reason"), REFUSED)
def test_turned_down(run: Any, plan: Dict[str, Any], lever: Any, reason: str) -> None:
    done = run(PRELUDE + "try:\n" + LOOP.replace("\n", "\n    ") + "\nexcept BaseException: pass\n", plan=plan)
    assert (done.code, done.out) == (4, ""), done.err
    note = done.note("plan_refused")
    assert (note["lever"], note["reason"]) == (lever, reason)
    assert "exit" not in done.kinds() and done.of("step") == []
