"""Levers that other packages carry out, where those are installed; CI has none, so this is run by hand:

`OOMPROOF_TEST_STANDINS=FOLDER PYTHON -m pytest tests/python/levers/test_packages.py`
"""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List

import pytest
import real_torch  # noqa: F401 - before torch
import torch
from levers import apply
from torch import nn
from training import Net, cross_entropy, tokens

EIGHT_BITS = ("bitsandbytes", "torchao")


@pytest.fixture(params=EIGHT_BITS)
def package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of the packages, as if the other were not there."""
    name = str(request.param)
    pytest.importorskip(name)
    for other in EIGHT_BITS:
        if other != name:
            for module in [each for each in sys.modules if each.split(".")[0] == other]:
                monkeypatch.delitem(sys.modules, module)
            monkeypatch.setitem(sys.modules, other, None)
    return name


class Wide(nn.Module):
    """Weights that are large enough to be kept in eight bits."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 1)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.up(x)))


def trained(kind: Any, steps: int, planned: bool) -> Any:
    torch.manual_seed(0)
    model = Wide()
    optimizer = kind(
        [{"params": model.up.parameters(), "betas": (0.5, 0.9)}, {"params": model.down.parameters()}],
        lr=1e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1,
    )  # fmt: skip
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    applied = apply({"levers": [{"name": "optimizer-state", "kind": "8bit"}]}, model, optimizer) if planned else None
    x = torch.randn(32, 64)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(float(loss.detach()))
    return model, optimizer, losses, applied


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_moments_in_eight_bits(package: str, kind: Any) -> None:
    _, _, expected, _ = trained(kind, 10, planned=False)
    model, optimizer, losses, applied = trained(kind, 10, planned=True)
    assert type(optimizer).__module__.split(".")[0] == package and "8bit" in type(optimizer).__name__
    # Another optimizer would be elsewhere after ten steps; so would one with its own `betas`.
    assert losses == pytest.approx(expected, rel=2e-3) and losses != expected
    groups = optimizer.param_groups
    assert [tuple(group["betas"]) for group in groups] == [(0.5, 0.9), (0.8, 0.95)]
    for group in groups:
        assert float(group["lr"]) == pytest.approx(1e-3 * 0.9**10)
        assert (group["eps"], group["weight_decay"]) == (1e-6, 0.1)
    moments = [value for value in optimizer.state[model.up.weight].values() if getattr(value, "dim", int)() == 2]
    codes = [getattr(value, "codes", value) for value in moments]
    assert len([code for code in codes if code.dtype is torch.uint8 and code.numel() == 64 * 256]) == 2
    applied.undo()
    assert type(optimizer) is kind


@pytest.fixture
def adapted() -> Iterator[Dict[str, Any]]:
    pytest.importorskip("peft")
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    before = {name: entry.detach().clone() for name, entry in model.named_parameters()}
    inputs, labels = torch.utils.data.default_collate(tokens(8))
    expected = model(inputs).detach()
    applied = apply({"levers": [{"name": "lora", "rank": 2}]}, model, optimizer)
    yield {"model": model, "optimizer": optimizer, "before": before, "inputs": inputs, "labels": labels,
           "expected": expected, "applied": applied}  # fmt: skip
    applied.undo()


def frozen(model: Any) -> List[Any]:
    return [entry for entry in model.parameters() if not entry.requires_grad]


def test_adapters_are_nothing_before_the_first_step(adapted: Dict[str, Any]) -> None:
    model = adapted["model"]
    assert torch.equal(model(adapted["inputs"]), adapted["expected"])
    assert len(frozen(model)) == len(adapted["before"])
    assert {entry.shape[0] == 2 or entry.shape[1] == 2 for entry in model.parameters() if entry.requires_grad} == {True}


def test_adapters_train_and_the_rest_stays(adapted: Dict[str, Any]) -> None:
    model, optimizer, held = adapted["model"], adapted["optimizer"], frozen(adapted["model"])
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = cross_entropy(model(adapted["inputs"]), adapted["labels"])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    for one, other in zip(held, adapted["before"].values()):
        assert torch.equal(one, other) and one.grad is None and not optimizer.state.get(one)
    assert not torch.equal(model(adapted["inputs"]), adapted["expected"])


def test_without_adapters_the_model_is_what_it_was(adapted: Dict[str, Any]) -> None:
    model = adapted["model"]
    adapted["applied"].undo()
    assert [name for name, _ in model.named_parameters()] == list(adapted["before"])
    assert all(entry.requires_grad for entry in model.parameters())
    assert torch.equal(model(adapted["inputs"]), adapted["expected"])
    assert len(adapted["optimizer"].param_groups) == 1
