"""A plan that claims to change nothing, or only the order of sums, leaves what an unplanned run leaves."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple

import pytest
import real_torch  # noqa: F401 - before torch
import torch
import torch.utils.checkpoint as checkpoints
from levers import apply
from torch import nn
from training import (
    Block,
    Convolutions,
    InPlace,
    LossInside,
    Net,
    Program,
    Recurrent,
    State,
    cross_entropy,
    images,
    tokens,
)

Lever = Dict[str, Any]
EXACT = 0.0
ROUNDING = 2e-5

MICRO_2 = {"name": "micro-batch", "chunks": 2}
MICRO_3 = {"name": "micro-batch", "chunks": 3}
FORLOOP = {"name": "optimizer-implementation", "implementation": "forloop"}
FOREACH = {"name": "optimizer-implementation", "implementation": "foreach"}
FUSED = {"name": "optimizer-implementation", "implementation": "fused"}


CHUNKED = {"name": "chunked-loss", "chunks": 5}
OFFLOAD = {"name": "activation-offload", "least_bytes": 0}
ALLOCATOR = {"name": "allocator-settings", "conf": "expandable_segments:True"}


SPLIT = {"name": "split-forward", "chunks": 3}


def named(name: str, **parameters: Any) -> Lever:
    return {"name": name, **parameters}


def checkpoint(*modules: str, **more: Any) -> Lever:
    return {"name": "activation-checkpointing", "modules": list(modules), **more}


def check(levers: List[Lever], program: Program, tolerance: float, *, random: bool = True) -> None:
    expected = program.run(lambda model, optimizer: None)
    got = program.run(lambda model, optimizer: apply({"levers": levers}, model, optimizer))
    _compare(got, expected, tolerance)
    if random:
        assert torch.equal(got.random, expected.random)


def _compare(got: State, expected: State, tolerance: float) -> None:
    for kind in ("parameters", "gradients", "buffers"):
        one, other = getattr(got, kind), getattr(expected, kind)
        assert list(one) == list(other)
        for name, value in other.items():
            torch.testing.assert_close(
                one[name], value, rtol=tolerance, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}"
            )


def zeroing(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    optimizer.zero_grad(set_to_none=False)
    cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def loss_inside(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    optimizer.zero_grad()
    model(inputs, labels=labels)["loss"].backward()
    optimizer.step()


LM = Program()
BLOCKS = ("blocks.0", "blocks.1", "blocks.2")
SGD = Program(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))
EVERYTHING = Program(clip=0.5, scaled=True, scheduled=True)
CONVOLUTIONS = Program(model=Convolutions, data=lambda: images(24), loss=nn.CrossEntropyLoss())
GROUPS = Program(
    model=lambda: Convolutions(lambda width: nn.GroupNorm(2, width)),
    data=lambda: images(22),
    loss=nn.CrossEntropyLoss(),
)
IGNORED = Program(data=lambda: tokens(20, ignored=True))

CASES: List[Tuple[List[Lever], Program, float]] = [
    ([checkpoint(*BLOCKS)], LM, EXACT),
    ([checkpoint("blocks.1")], EVERYTHING, EXACT),
    ([checkpoint(*BLOCKS)], Program(model=lambda: Net(dropout=0.3)), EXACT),
    ([checkpoint("blocks.0", "blocks.1")], CONVOLUTIONS, EXACT),
    ([checkpoint("blocks")], CONVOLUTIONS, EXACT),
    ([checkpoint(*BLOCKS, policy="keep-matmul")], Program(model=lambda: Net(dropout=0.3)), EXACT),
    ([checkpoint("blocks.0", policy="keep-matmul")], CONVOLUTIONS, EXACT),
    ([checkpoint("inner", policy="keep-matmul")], Program(model=Recurrent), EXACT),
    (
        [checkpoint("inner", policy="keep-matmul")],
        Program(model=lambda: InPlace(nn.Dropout(0.3), nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Dropout(0.3))),
        EXACT,
    ),
    (
        [checkpoint("inner", policy="keep-matmul")],
        Program(model=lambda: InPlace(nn.LayerNorm(8), nn.ReLU(inplace=True))),
        EXACT,
    ),
    ([FORLOOP], LM, ROUNDING),
    ([FOREACH], LM, ROUNDING),
    ([FUSED], LM, ROUNDING),
    ([FUSED], EVERYTHING, ROUNDING),
    ([FORLOOP], SGD, ROUNDING),
    ([MICRO_2], LM, ROUNDING),
    ([MICRO_3], LM, ROUNDING),
    ([MICRO_2], SGD, ROUNDING),
    ([MICRO_2], EVERYTHING, ROUNDING),
    ([MICRO_3], Program(data=lambda: tokens(20)), ROUNDING),
    ([MICRO_3], Program(data=lambda: tokens(17), clear_last=True, epochs=2), ROUNDING),
    ([MICRO_2], IGNORED, ROUNDING),
    ([MICRO_3], IGNORED, ROUNDING),
    ([MICRO_3], GROUPS, ROUNDING),
    ([MICRO_2, checkpoint(*BLOCKS), FORLOOP], EVERYTHING, ROUNDING),
    ([{"name": "micro-batch", "chunks": 64}], IGNORED, ROUNDING),
    ([CHUNKED], LM, ROUNDING),
    ([CHUNKED], IGNORED, ROUNDING),
    ([{**CHUNKED, "chunks": 1000}], IGNORED, ROUNDING),
    ([{**CHUNKED, "linear": "head"}], EVERYTHING, ROUNDING),
    ([CHUNKED, MICRO_3, checkpoint(*BLOCKS)], IGNORED, ROUNDING),
    ([CHUNKED], Program(model=lambda: Net(tied=True)), ROUNDING),
    ([CHUNKED], Program(model=lambda: Net(frozen="head")), ROUNDING),
    ([CHUNKED], Program(model=lambda: Net(frozen="embedding")), ROUNDING),
    ([OFFLOAD], Program(model=lambda: Net(dropout=0.3)), EXACT),
    ([{**OFFLOAD, "modules": ["blocks.0", "blocks.2"]}], EVERYTHING, EXACT),
    ([OFFLOAD], CONVOLUTIONS, EXACT),
    ([{**OFFLOAD, "modules": ["blocks.0"]}, checkpoint("blocks.1"), MICRO_2], EVERYTHING, ROUNDING),
    ([ALLOCATOR], LM, EXACT),
    # A GPU would have to be asked before it starts.
    ([named("allocator-settings", conf="backend:cudaMallocAsync")], LM, EXACT),
    ([named("set-to-none")], Program(body=zeroing), EXACT),
    ([named("set-to-none"), MICRO_2], EVERYTHING, ROUNDING),
    ([FUSED, named("set-to-none")], EVERYTHING, ROUNDING),
    ([named("optimizer-offload")], EVERYTHING, EXACT),
    ([named("optimizer-offload"), MICRO_2], SGD, ROUNDING),
    ([SPLIT], LM, ROUNDING),
    ([SPLIT, checkpoint(*BLOCKS)], EVERYTHING, ROUNDING),
    ([SPLIT, CHUNKED], LM, ROUNDING),
    ([SPLIT, CHUNKED, checkpoint(*BLOCKS)], IGNORED, ROUNDING),
    ([SPLIT, CHUNKED], Program(model=lambda: Net(tied=True)), ROUNDING),
    ([SPLIT, CHUNKED], Program(model=LossInside, data=lambda: tokens(20, ignored=True), body=loss_inside), ROUNDING),
    ([{**SPLIT, "chunks": 100}], GROUPS, ROUNDING),
    ([SPLIT], Program(model=LossInside, data=lambda: tokens(20, ignored=True), body=loss_inside), ROUNDING),
    (
        [named("channels-last")],
        Program(model=Convolutions, data=lambda: images(24), loss=nn.CrossEntropyLoss(), optimizer=SGD.optimizer),
        ROUNDING,
    ),
    ([named("inference-evaluation")], LM, EXACT),
    ([named("evaluation-batch", size=2)], LM, EXACT),
    ([named("per-batch-transfer")], LM, EXACT),
]

LOSSES = [
    lambda logits, labels: torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1
    ),
    lambda logits, labels: torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), weight=torch.arange(11.0)
    ),
    lambda logits, labels: 0.5 * torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()) / 4,
    lambda logits, labels: torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.nn.functional.one_hot(labels.flatten(), logits.shape[-1]).float()
    ),
    lambda logits, labels: masked(logits, labels),
    lambda logits, labels: by_hand(logits, labels),
    lambda logits, labels: torch.nn.functional.mse_loss(logits, labels.unsqueeze(-1).float().expand_as(logits)),
    lambda logits, labels: (logits - 1).square().mean() + torch.nn.functional.l1_loss(logits, torch.ones_like(logits)),
    lambda logits, labels: torch.stack([logits.mean(), logits.square().mean()]).sum(),
]


def masked(logits: Any, labels: Any) -> Any:
    mask = (labels != 3).float()
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return (each * mask).sum() / mask.sum()


def by_hand(logits: Any, labels: Any) -> Any:
    each = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return each.sum() / len(labels)


@pytest.mark.parametrize(("levers", "program", "tolerance"), CASES)
def test_a_planned_run_leaves_the_same(levers: List[Lever], program: Program, tolerance: float) -> None:
    if any("policy" in lever for lever in levers) and not hasattr(checkpoints, "create_selective_checkpoint_contexts"):
        pytest.skip("selective checkpointing came with torch 2.5")
    check(levers, program, tolerance)


SCORES = [
    lambda logits, labels: cross_entropy(logits.float(), labels),
    lambda logits, labels: nn.CrossEntropyLoss(label_smoothing=0.1)(logits.view(-1, logits.size(-1)), labels.view(-1)),
    lambda logits, labels: nn.CrossEntropyLoss(weight=torch.arange(11.0))(logits.flatten(0, 1), labels.flatten()),
    lambda logits, labels: cross_entropy(logits[:, :-1].contiguous(), labels[:, :-1]),
    lambda logits, labels: cross_entropy(logits[..., :-1, :], labels[:, 1:]) + 0.5 * cross_entropy(logits, labels),
    lambda logits, labels: torch.nn.functional.cross_entropy(input=logits.view(-1, 11), target=labels.view(-1), reduction="sum") / 48,
]  # fmt: skip


@pytest.mark.parametrize("loss", SCORES)
def test_scores_in_pieces(loss: Any) -> None:
    check([CHUNKED], Program(loss=loss), ROUNDING)


@pytest.mark.parametrize("loss", LOSSES)
def test_parts_are_weighed_by_what_the_loss_is_a_mean_of(loss: Any) -> None:
    check([MICRO_3], Program(data=lambda: tokens(20), loss=loss), ROUNDING)


@pytest.mark.skipif("OOMPROOF_LONG" not in os.environ, reason="the compiler takes seconds; set OOMPROOF_LONG=1")
def test_a_compiled_model() -> None:
    check([named("compile", backend="aot_eager")], LM, ROUNDING)


UPDATED_EARLY = [LM, SGD, Program(scheduled=True), Program(scheduled=True, clear_last=True), CONVOLUTIONS]


@pytest.mark.parametrize("program", UPDATED_EARLY)
def test_updates_in_the_backward_pass_leave_the_same_and_no_gradients(program: Program) -> None:
    expected = program.run(lambda model, optimizer: None)
    got = program.run(lambda model, optimizer: apply({"levers": [named("optimizer-in-backward")]}, model, optimizer))
    assert not got.gradients and expected.gradients
    _compare(
        State(got.parameters, {}, got.buffers, None), State(expected.parameters, {}, expected.buffers, None), EXACT
    )


def test_undone_is_as_if_nothing_had_been() -> None:
    before = dict(vars(torch.optim.Optimizer)), dict(vars(nn.Module)), dict(vars(torch.autograd))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    applied = apply({"levers": [checkpoint(*BLOCKS), FORLOOP, MICRO_2]}, model, optimizer)
    assert "forward" in vars(model.blocks[0]) and "step" in vars(optimizer)
    applied.undo()
    assert (dict(vars(torch.optim.Optimizer)), dict(vars(nn.Module)), dict(vars(torch.autograd))) == before
    assert "forward" not in vars(model.blocks[0]) and "step" not in vars(optimizer)
    assert isinstance(model.blocks[0], Block)
