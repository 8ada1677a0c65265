"""What levers do that change the training, and what those do that only show outside it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import pytest
import real_torch  # noqa: F401 - before torch
import torch
from levers import apply
from torch import nn
from training import Net, cross_entropy, tokens


@pytest.fixture
def planned() -> Iterator[Any]:
    """Applies plans, and takes them back when the test is over."""
    stack: List[Any] = []

    def put(plan: Any, model: Any, optimizer: Any = None) -> Any:
        stack.append(apply(plan, model, optimizer))
        return stack[-1]

    yield put
    while stack:
        stack.pop().undo()


def made() -> Tuple[Any, Any, Any, Any]:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    batch = torch.utils.data.default_collate(tokens(8))
    return model, optimizer, batch[0], batch[1]


def step(model: Any, optimizer: Any, inputs: Any, labels: Any) -> float:
    optimizer.zero_grad()
    loss = cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def test_autocast_computes_products_in_16_bits_and_the_loss_in_32(planned: Any) -> None:
    model, optimizer, inputs, labels = made()
    seen: List[torch.dtype] = []
    model.head.register_forward_hook(lambda _, __, result: seen.append(result.dtype))
    plain = float(cross_entropy(model(inputs), labels).detach())
    applied = planned({"levers": [{"name": "autocast", "dtype": "bfloat16"}]}, model, optimizer)
    loss = step(model, optimizer, inputs, labels)
    assert model(inputs).dtype is torch.float32 and model.head.weight.grad.dtype is torch.float32
    assert seen == [torch.float32, torch.bfloat16, torch.bfloat16]
    assert loss == pytest.approx(plain, rel=0.01) and loss != plain
    applied.undo()
    assert float(cross_entropy(made()[0](inputs), labels).detach()) == plain


def test_parameters_in_16_bits_stay_those_of_the_optimizer(planned: Any) -> None:
    model, optimizer, inputs, labels = made()
    held = list(model.parameters())
    applied = planned({"levers": [{"name": "bf16-parameters"}]}, model, optimizer)
    losses = [step(model, optimizer, inputs, labels) for _ in range(20)]
    assert losses[-1] < losses[0] - 0.1
    assert all(one is other for one, other in zip(model.parameters(), held))
    kinds = {
        entry.dtype
        for parameter in held
        for entry in (parameter, parameter.grad, optimizer.state[parameter]["exp_avg"])
    }
    assert kinds == {torch.bfloat16} and model(inputs).dtype is torch.float32
    applied.undo()
    assert {entry.dtype for entry in model.parameters()} == {torch.float32}


@pytest.mark.skipif(not hasattr(torch.optim, "Adafactor"), reason="`Adafactor` came with torch 2.5")
def test_a_factored_state_follows_the_script_s_scheduler(planned: Any) -> None:
    model, optimizer, inputs, labels = made()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    applied = planned({"levers": [{"name": "optimizer-state", "kind": "factored"}]}, model, optimizer)
    losses = []
    for _ in range(20):
        losses.append(step(model, optimizer, inputs, labels))
        scheduler.step()
    assert losses[-1] < losses[0]
    assert type(optimizer) is torch.optim.Adafactor
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.9**20)
    assert optimizer.param_groups[0]["weight_decay"] == 0.1
    numbers = sum(entry.numel() for state in optimizer.state.values() for entry in state.values())
    assert numbers < sum(entry.numel() for entry in model.parameters())
    applied.undo()
    assert type(optimizer) is torch.optim.AdamW and "betas" in optimizer.param_groups[0]


def test_an_evaluation_keeps_nothing(planned: Any) -> None:
    model, optimizer, inputs, _ = made()
    expected = model.eval()(inputs)
    assert expected.requires_grad
    planned({"levers": [{"name": "inference-evaluation"}]}, model.train(), optimizer)
    assert model(inputs).requires_grad
    found = model.eval()(inputs)
    assert not found.requires_grad and torch.equal(found, expected)


def test_an_evaluation_in_slices(planned: Any) -> None:
    model, optimizer, inputs, _ = made()
    rows: List[int] = []
    model.blocks[0].register_forward_pre_hook(lambda _, arguments: rows.append(len(arguments[0])))
    planned({"levers": [{"name": "evaluation-batch", "size": 3}]}, model, optimizer)
    with torch.no_grad():
        found = model.eval()(inputs)
        torch.testing.assert_close(found, Net.forward(model, inputs))
    model.train()(inputs)
    assert rows == [3, 3, 2, 8, 8]


@pytest.mark.parametrize("least", [0, 1 << 40])
def test_a_forward_pass_without_a_backward_pass_leaves_nothing(planned: Any, least: int) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    planned({"levers": [{"name": "activation-offload", "least_bytes": least}]}, model)
    kept: List[Any] = []
    model[1].register_forward_hook(lambda _, __, result: kept.append(weakref.ref(result)))
    gc.disable()
    try:
        model(torch.ones(2, 4))
        assert kept[0]() is None
    finally:
        gc.enable()


def test_slices_of_a_pass_are_computed_once_more_in_the_backward_pass(planned: Any) -> None:
    model, optimizer, inputs, labels = made()
    rows: List[int] = []
    model.blocks[0].register_forward_pre_hook(lambda _, arguments: rows.append(len(arguments[0])))
    planned({"levers": [{"name": "split-forward", "chunks": 2}]}, model, optimizer)
    # In the first step, results of another slice are compared with theirs.
    step(model, optimizer, inputs, labels)
    assert rows == [4, 4, 3, 4, 4]
    rows.clear()
    step(model, optimizer, inputs, labels)
    assert rows == [4, 4, 4, 4]


def test_dropout_in_slices_is_the_same_in_both_passes(planned: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 1, bias=False))
    applied = planned({"levers": [{"name": "split-forward", "chunks": 2}]}, model)
    inputs = torch.ones(6, 4)
    result = model(inputs)
    result.sum().backward()
    # The weight's gradient is the sum of the rows that were kept, by which the results were made.
    assert float(model[1].weight.grad @ model[1].weight.detach().T) == pytest.approx(
        float(result.detach().sum()), rel=1e-5
    )
    applied.undo()


def test_distributed_gradients_lie_in_their_buckets(planned: Any, tmp_path: Path) -> None:
    distributed = torch.distributed
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = Net()
        applied = planned({"levers": [{"name": "gradient-bucket-view"}]}, model)
        assert nn.parallel.DistributedDataParallel(model).gradient_as_bucket_view
        applied.undo()
        assert not nn.parallel.DistributedDataParallel(model).gradient_as_bucket_view
    finally:
        distributed.destroy_process_group()


def test_a_plan_is_read_from_a_file(planned: Any, tmp_path: Path) -> None:
    text = '# what it does\nschema = 1\n[made_for]\ndevice = "x"\n[[lever]]\nname = "micro-batch"\nchunks = 2\n'
    (tmp_path / "plan.toml").write_text(text)
    model = Net()
    assert planned(tmp_path / "plan.toml", model).levers == ["micro-batch"]
