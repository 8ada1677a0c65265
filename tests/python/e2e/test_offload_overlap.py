"""Activations that wait on the host travel while the device computes, and no more of them than a few are under way."""

from __future__ import annotations

import pytest
from virtual_run import Program

ROWS, WIDTH, LAYERS = 4096, 4096, 12
# Each layer keeps its input. A product takes somewhat longer than the way of a tensor to the host.
SCRIPT = f"""
import torch
from torch import nn
# One weight for all layers, so that gradients are small beside activations.
model = nn.Sequential(*[nn.Linear({WIDTH}, {WIDTH}, bias=False)] * {LAYERS}).cuda()
first = nn.Linear({WIDTH}, {WIDTH}, bias=False).cuda()
optimizer = torch.optim.SGD([*first.parameters(), *model.parameters()], lr=0.1)
x = torch.randn({ROWS}, {WIDTH}, device="cuda")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.body = first, model
    def forward(self, x):
        return self.body(self.first(x))
net = Net()
for _ in range(4):
    net(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
PLAN = 'schema = 1\n[[lever]]\nname = "activation-offload"\nmodules = ["body"]\n'
PLAIN = Program(SCRIPT, options=("--gpu", "h100"))
OFFLOADED = Program(SCRIPT, options=("--gpu", "h100", "--plan", "plan.toml"), files={"plan.toml": PLAN})
TENSOR = ROWS * WIDTH * 4


def test_the_way_to_the_host_hides_behind_arithmetic() -> None:
    plain, offloaded = PLAIN.result(), OFFLOADED.result()
    assert (plain.code, offloaded.code) == (0, 0), plain.err + offloaded.err
    times = [each.verdict["step_device_ns"]["likely"] for each in (plain, offloaded)]
    # There and back at 25 GB/s, one after another.
    copies = 2 * LAYERS * TENSOR / 25
    assert times[0] < times[1] < times[0] + copies / 2


def test_a_few_tensors_are_under_way() -> None:
    plain, offloaded = PLAIN.result(), OFFLOADED.result()
    saved = plain.peak["allocated_bytes"] - offloaded.peak["allocated_bytes"]
    # Of those that are kept without it, two are fetched ahead and one is worked on, when all gradients are there.
    assert (LAYERS - 6) * TENSOR <= saved < LAYERS * TENSOR


@pytest.mark.parametrize("run", [PLAIN, OFFLOADED])
def test_all_steps_run(run: Program) -> None:
    assert run.result().verdict["steps_measured"] >= 2
