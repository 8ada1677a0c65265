"""A plan takes on the virtual GPU what the same change takes when it is written into the script."""

from __future__ import annotations

from typing import Dict

import pytest
from virtual_run import Program

SCRIPT = """
import torch, torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
HAND = set(sys.argv[1:])
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(512, 2048), nn.Linear(2048, 512)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4000, 512)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(512, 4000)
    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if "checkpoint" in HAND else block(x)
        return self.head(x)
net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
data = TensorDataset(torch.randint(0, 4000, (64, 257)))
for (tokens,) in DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    for part in tokens.chunk(4) if "micro" in HAND else [tokens]:
        part = part.cuda()
        logits = net(part[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()) * (len(part) / len(tokens))
        loss.backward()
    optimizer.step()
result(peak=torch.cuda.max_memory_allocated())
"""

PLANS: Dict[str, str] = {
    "checkpoint": 'name = "activation-checkpointing"\nmodules = ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]',
    "micro": 'name = "micro-batch"\nchunks = 4',
}


def planned(lever: str) -> Program:
    text = f"schema = 1\n[expects]\nparameters = 12498848\n[[lever]]\n{lever}\n"
    return Program(SCRIPT, options=("--gpu", "h100", "--plan", "plan.toml"), files={"plan.toml": text})


PLAIN = Program(SCRIPT, options=("--gpu", "h100"))
PAIRS = {
    name: (planned(lever), Program(SCRIPT, options=("--gpu", "h100"), arguments=(name,)))
    for name, lever in PLANS.items()
}
REFUSED = planned('name = "activation-checkpointing"\nmodules = ["layers.0"]')


@pytest.mark.parametrize("name", PAIRS)
def test_takes_what_the_edit_takes(name: str) -> None:
    plan, edit = (program.result() for program in PAIRS[name])
    assert (plan.code, edit.code) == (0, 0), plan.err + edit.err
    # Weights of the loss and the like are a few small blocks.
    assert plan.peak["allocated_bytes"] == pytest.approx(edit.peak["allocated_bytes"], abs=64 << 10)
    assert plan.verdict["steps_measured"] == edit.verdict["steps_measured"]


def test_saves_what_it_is_for() -> None:
    plain = PLAIN.result().peak["allocated_bytes"]
    assert PAIRS["micro"][0].result().peak["allocated_bytes"] < PAIRS["checkpoint"][0].result().peak["allocated_bytes"]
    assert PAIRS["checkpoint"][0].result().peak["allocated_bytes"] < plain


def test_one_that_does_not_match_is_refused() -> None:
    done = REFUSED.result()
    assert done.code == 4 and "the model has no module `layers.0`" in done.err
