"""The note that plans are made from, of a script on the CPU: all that needs no device."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Run

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.up = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.1)
    def forward(self, x):
        return self.dropout(self.up(self.norm(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(4, 7)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
net = Net()
opt = torch.optim.AdamW(net.parameters())
schedule = torch.optim.lr_scheduler.StepLR(opt, 1)
for x, y in DataLoader(list(zip(torch.randn(24, 4), torch.randint(0, 7, (24,)))), batch_size=8):
    loss = nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    schedule.step()
"""

# 2 blocks of 8 of the norm and 20 of the layer, and 35 of the head.
EXPECTED = {
    "parameters": 91, "parameter_bytes": 364, "gradient_bytes": 364, "largest_parameter_bytes": 112,
    "chain": True, "batch": 8, "batch_source": "loader", "micro_batches": 1, "loss_inside": False,
    "clips": True, "scaler": False, "scheduler": True, "lr_set_by_hand": False, "batchnorm": True,
    "forward_draws": True, "loop_draws": True, "set_to_none": True, "autocast": None, "frameworks": [], "attention": [],
    "loss": {"kind": "cross_entropy", "rows": 8, "classes": 7, "dtype": "float32", "label_smoothing": 0.1,
             "linear": "head"},
}  # fmt: skip


@pytest.fixture(scope="module")
def facts(tmp_path_factory: Any, fake_device: Any, fake_standins: Any) -> Any:
    done = Run(tmp_path_factory.mktemp("facts"), fake_device, fake_standins)(SCRIPT, probe=True, full=True)
    assert done.code == 0, done.err
    return done.note("plan_facts")


@pytest.mark.parametrize("name", EXPECTED)
def test_what_the_script_is_made_of(facts: Any, name: str) -> None:
    found = facts[name]
    if name == "loss":
        del found["bytes_at_peak"]
    assert found == EXPECTED[name]


def test_blocks_are_those_with_parts_in_the_order_in_which_they_ran(facts: Any) -> None:
    wanted = ("path", "class", "group", "batchnorm", "dropout", "parameters_bytes")
    found = [tuple(block[name] for name in wanted) for block in facts["blocks"]]
    assert found == [(f"blocks.{number}", "Block", "blocks", True, True, 112) for number in range(2)]


def test_what_is_not_known_without_a_device_is_null(facts: Any) -> None:
    assert {block["saved_bytes"] for block in facts["blocks"]} == {None}
    assert set(facts["points"].values()) == {None} and facts["step_ns"] is None


def test_the_optimizer(facts: Any) -> None:
    (optimizer,) = facts["optimizer"]
    assert optimizer["class"] == "torch.optim.adamw.AdamW" and optimizer["implementation"] == "forloop"
    assert (optimizer["parameter_bytes"], optimizer["largest_parameter_bytes"]) == (364, 112)


DRAWING = """
import random, torch
from torch import nn
from torch.utils.data import DataLoader
class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, at):
        return torch.randn(4), at % 4
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 1, dropout=FORWARD)
        self.memory = nn.LSTM(4, 4, num_layers=2, dropout=0.0)
        self.drop = nn.Dropout(0.5).eval()
        self.head = nn.Linear(4, 4)
    def forward(self, x):
        x, _ = self.attention(x, x, x)
        return self.head(self.memory(self.drop(x))[0])
net = Net()
net.train()
net.drop.eval()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(Noisy(), batch_size=8, shuffle=True):
    opt.zero_grad()
    LOOP
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("forward", "loop", "expected"),
    [
        # What the loader and the data set draw is drawn once per batch in any case.
        ("0.0", "pass", (False, False)),
        ("0.1", "pass", (True, True)),
        ("0.0", "x = x + torch.randn_like(x)", (False, True)),
        ("0.0", "x = x * random.random()", (False, True)),
        ("0.0", "x = x * float(__import__('numpy').random.rand())", (False, True)),
    ],
)
def test_random_numbers_are_seen_where_they_are_drawn(
    tmp_path: Any, fake_device: Any, fake_standins: Any, forward: str, loop: str, expected: Any
) -> None:
    script = DRAWING.replace("FORWARD", forward).replace("LOOP", loop)
    done = Run(tmp_path, fake_device, fake_standins)(script, probe=True, full=True)
    assert done.code == 0, done.err
    facts = done.note("plan_facts")
    assert (facts["forward_draws"], facts["loop_draws"]) == expected


RAW = """
import torch
from torch import nn
from torch.utils.data import DataLoader
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
data = list(zip(torch.randn(24, 4), torch.arange(24) % 4))
mean = sum(x.mean() for x, _ in DataLoader(data, batch_size=2))
for step in range(3):
    x, y = torch.randn(8, 4), torch.arange(8) % 4
    opt.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
"""


def test_a_loader_that_is_read_before_training_gives_no_batch(
    tmp_path: Any, fake_device: Any, fake_standins: Any
) -> None:
    done = Run(tmp_path, fake_device, fake_standins)(RAW, probe=True, full=True)
    assert done.code == 0, done.err
    facts = done.note("plan_facts")
    assert (facts["batch_source"], facts["batch"]) == ("forward", 8)
