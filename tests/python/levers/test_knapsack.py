"""The knapsack under the budget of the compiler, against all choices there are and against PyTorch's solver."""

from __future__ import annotations

import itertools
import random
from typing import Any, List, Tuple

import pytest
import real_torch  # noqa: F401 - before torch
from levers import apply, knapsack

Items = List[Tuple[float, float]]


def items(seed: int, count: int) -> Items:
    dice = random.Random(seed)
    sizes = [dice.choice([0.0, 1e-6, dice.random()]) if seed % 2 else dice.random() for _ in range(count)]
    total = sum(sizes) or 1.0
    return [(size / total, float(dice.randrange(8))) for size in sizes]


def solved(each: Items, budget: float) -> Tuple[float, float]:
    """What is saved and what it takes, as the answer's items say."""
    memory, times = [size for size, _ in each], [time for _, time in each]
    saved, keep, again = knapsack.solve(memory, times, budget)
    assert sorted(keep + again) == list(range(len(each))) and keep == sorted(keep)
    assert saved == pytest.approx(sum(times[item] for item in keep))
    return saved, sum(memory[item] for item in keep)


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_saves_more(seed: int) -> None:
    each = items(seed, 9)
    for budget in (0.0, 0.2, 0.5, 0.9, 1.0):
        choices = itertools.chain.from_iterable(itertools.combinations(each, count) for count in range(10))
        best = max(
            sum(time for _, time in choice) for choice in choices if sum(size for size, _ in choice) <= budget + 1e-12
        )
        saved, takes = solved(each, budget)
        assert takes <= budget + 1e-9 and saved >= best - 1e-9 - (budget == 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_it_saves_what_pytorch_s_solver_saves_and_stays_within_the_budget(seed: int) -> None:
    theirs = pytest.importorskip("torch._functorch._activation_checkpointing.knapsack")
    dice = random.Random(seed)
    each: Items = [(size, dice.random()) for size, _ in items(2 * seed, 60)]
    for budget in (0.1, 0.5):
        saved, takes = solved(each, budget)
        memory, times = [size for size, _ in each], [time for _, time in each]
        _, keep, _ = theirs.dp_knapsack(memory, times, budget)
        assert takes <= budget
        # Its rounding may let it keep a little more than the budget.
        if sum(memory[item] for item in keep) <= budget:
            assert saved >= 0.999 * sum(times[item] for item in keep)


def test_small_ones_do_not_exceed_the_budget() -> None:
    theirs = pytest.importorskip("torch._functorch._activation_checkpointing.knapsack")
    each: Items = [(0.00004, 1.0)] * 25_000
    each = [*each[:500], (0.98, 1.0)]
    _, keep, _ = theirs.dp_knapsack([size for size, _ in each], [time for _, time in each], 0.01)
    assert sum(each[item][0] for item in keep) > 0.015
    saved, takes = solved(each, 0.01)
    assert takes <= 0.01 and saved >= 249


MODEL = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
    def forward(self, x):
        return x + self.down(torch.sin(self.up(x)).cos())
model = nn.Sequential(*[Block() for _ in range(3)])
"""


def kept(solver: Any) -> Any:
    """The gradients of a compiled step."""
    import torch

    torch.manual_seed(0)
    torch._dynamo.reset()
    scope: Any = {}
    exec(MODEL, scope)
    model = scope["model"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lever = {"name": "compile", "budget": 0.15, "backend": "aot_eager_decomp_partition", **solver}
    applied = apply({"schema": 1, "levers": [lever]}, model, optimizer)
    model(torch.ones(8, 16)).sum().backward()
    applied.undo()
    return [parameter.grad for parameter in model.parameters()]


def test_the_compiler_asks_it(monkeypatch: Any) -> None:
    import torch

    if not hasattr(pytest.importorskip("torch._inductor.custom_graph_pass"), "CustomKnapsackSolver"):
        pytest.skip("this release takes no solver")
    asked = []
    solve = knapsack.solve

    def asking(*args: Any) -> Any:
        asked.append(args)
        return solve(*args)

    monkeypatch.setattr(knapsack, "solve", asking)
    before = torch._functorch.config.activation_memory_budget_solver
    plain, ours = kept({}), kept({"solver": "exact"})
    assert asked and all(len(memory) == len(times) > 0 for memory, times, _ in asked)
    assert torch._functorch.config.activation_memory_budget_solver == before
    for one, other in zip(plain, ours):
        torch.testing.assert_close(one, other)
