"""What does not match, or would change what is computed, is refused with the reason and leaves everything as it was."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest
import real_torch  # noqa: F401 - before torch
import torch
import torch.nn.functional as F
from levers import NAMES, PlanRefused, apply
from torch import nn
from training import Convolutions, Net, Program, cross_entropy, images, tokens

Body = Callable[[Any, Any, Any, Any], None]
MICRO = {"name": "micro-batch", "chunks": 2}


def checkpoint(*modules: str, **more: Any) -> Dict[str, Any]:
    return {"name": "activation-checkpointing", "modules": list(modules), **more}


def check(plan: Dict[str, Any], program: Program, reason: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        program.run(lambda model, optimizer: apply(plan, model, optimizer))
    assert reason in caught.value.reason


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.register_buffer("calls", torch.zeros(()))
        self.inner.head = nn.Linear(11, 11)
        self.inner.forward = self.count

    def count(self, x: Any) -> Any:
        self.inner.calls += 1
        return self.inner.head(x)

    def forward(self, inputs: Any) -> Any:
        return self.inner(F.one_hot(inputs, 11).float())


class Pairs(Net):
    """Scores of each sample with each other one, as for contrastive losses."""

    def forward(self, inputs: Any) -> Any:
        found = super().forward(inputs).flatten(1)
        return found @ found.T


LM = Program()
CONVOLUTIONS = Program(model=Convolutions, data=lambda: images(24), loss=nn.CrossEntropyLoss())

AT_ONCE: List[Tuple[Dict[str, Any], Program, str]] = [
    ({"levers": [{"name": "magic"}]}, LM, "there is no such lever"),
    ({"levers": [{"chunks": 2}]}, LM, "has no name"),
    ({"levers": [MICRO, MICRO]}, LM, "in the plan twice"),
    ({"schema": 7, "levers": []}, LM, "schema 7"),
    ({"levers": [{**MICRO, "chunk": 2}]}, LM, "no parameter `chunk`"),
    ({"levers": [{"name": "micro-batch", "chunks": 1}]}, LM, "`chunks` is a whole number from 2 on"),
    ({"levers": [checkpoint()]}, LM, "no module is named"),
    ({"levers": [checkpoint("")]}, LM, "saves nothing"),
    ({"levers": [checkpoint("blocks.7")]}, LM, "no module `blocks.7`"),
    ({"levers": [checkpoint("blocks.0", policy="some")]}, LM, "`policy` is one of full, keep-matmul"),
    ({"levers": [], "expects": {"torch": "1.13"}}, LM, "made for torch 1.13"),
    ({"levers": [], "expects": {"parameters": 12}}, LM, "had 12 parameters"),
    ({"levers": [], "expects": {"modules": {"blocks.0": "Layer"}}}, LM, "was a `Layer` when the plan was made, and is a `Block`"),
    ({"levers": [], "expects": {"modules": {"layers.0": "Layer"}}}, LM, "no module `layers.0`"),
    ({"levers": [MICRO]}, CONVOLUTIONS, "`blocks.0.1` normalizes over the batch"),
    (
        {"levers": [{"name": "optimizer-implementation", "implementation": "fused"}]},
        Program(optimizer=lambda parameters: torch.optim.Adadelta(parameters)),
        "`Adadelta` has no option `fused`",
    ),
    ({"levers": [{"name": "allocator-settings", "conf": "yes"}]}, LM, "`conf` is text such as"),
    ({"levers": [{"name": "attention", "implementation": "sdpa"}]}, LM, "in code of its own"),
    ({"levers": [{"name": "chunked-loss", "chunks": 4, "linear": "norm"}]}, LM, "there is a `LayerNorm`"),
    ({"levers": [{"name": "autocast", "dtype": "float16"}]}, LM, "needs a `GradScaler`"),
    ({"levers": [{"name": "autocast", "dtype": "float8"}]}, LM, "`dtype` is one of bfloat16, float16"),
    ({"levers": [{"name": "autocast"}]}, Program(model=lambda: Net().bfloat16()), "parameters of 16 bits already"),
    ({"levers": [{"name": "activation-offload", "modules": ["x"]}]}, LM, "no module `x`"),
    ({"levers": [{"name": "split-forward", "chunks": 2}]}, CONVOLUTIONS, "normalizes over the batch"),
    ({"levers": [{"name": "split-forward", "chunks": 2}]}, Program(model=Counting), "`inner.calls` changes"),
    ({"levers": [{"name": "split-forward", "chunks": 2}], "expects": {"batch": 5}}, LM, "had 5 rows"),
    ({"levers": [{"name": "split-forward", "chunks": 2}]}, Program(model=Pairs), "compares its samples"),
    ({"levers": [{"name": "split-forward", "chunks": 3}]}, Program(model=Pairs), "compares its samples"),
    ({"levers": [{"name": "split-forward", "chunks": 8}]}, Program(model=Pairs), "compares its samples"),
    ({"levers": [{"name": "optimizer-in-backward"}]}, Program(clip=1.0), "clips gradients"),
    ({"levers": [{"name": "optimizer-in-backward"}]}, Program(scaled=True), "a `GradScaler` looks at all"),
    ({"levers": [{"name": "optimizer-in-backward"}, MICRO]}, LM, "added up over several backward passes"),
    (
        {"levers": [{"name": "optimizer-state", "kind": "factored"}]},
        Program(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)),
        "`SGD` is no Adam",
    ),
    (
        {"levers": [{"name": "optimizer-state", "kind": "factored"}]},
        Program(optimizer=lambda parameters: torch.optim.Adam(parameters, amsgrad=True)),
        "`amsgrad` of the optimizer is not carried over",
    ),
    ({"levers": [{"name": "compile", "budget": 2}]}, LM, "`budget` lies between 0 and 1"),
    ({"levers": [{"name": "channels-last"}]}, LM, "no convolution over images"),
    ({"levers": [{"name": "bf16-parameters"}]}, Program(model=lambda: Net().bfloat16()), "no parameter has 32 bits"),
    ({"levers": [{"name": "free-early"}]}, LM, "a change of the script's own lines"),
    ({"levers": [{"name": "prune", "modules": [], "fraction": 0.5}]}, LM, "found by training it"),
    ({"levers": [{"name": "larger-card"}]}, LM, "it is another card"),
]  # fmt: skip


def no_step(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    cross_entropy(model(inputs), labels).backward()


def no_backward(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    model(inputs)


def two_steps(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    for _ in range(2):
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def closure(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    optimizer.step(lambda: cross_entropy(model(inputs), labels))


def clears_by_hand(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    for parameter in model.parameters():
        parameter.grad = None
    cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def clips_by_hand(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    optimizer.zero_grad()
    cross_entropy(model(inputs), labels).backward()
    for parameter in model.parameters():
        parameter.grad.clamp_(-1, 1)
    optimizer.step()


def schedules_by_hand(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
    optimizer.param_groups[0]["lr"] *= 0.9
    cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def loss(make: Callable[[Any, Any], Any]) -> Body:
    def body(model: Any, optimizer: Any, inputs: Any, labels: Any) -> None:
        optimizer.zero_grad()
        make(model(inputs), labels).backward()
        optimizer.step()

    return body


def contrastive(logits: Any, labels: Any) -> Any:
    samples = logits.mean(1)
    return F.cross_entropy(samples @ samples.t(), torch.arange(len(samples)))


CHUNKED = {"name": "chunked-loss", "chunks": 4}

SCORES: List[Tuple[Callable[[Any, Any], Any], str]] = [
    (lambda logits, labels: cross_entropy(logits, labels) + 0 * logits.argmax(), "also read by `argmax`"),
    (lambda logits, labels: cross_entropy(logits / 2, labels), "read by `"),
    (lambda logits, labels: F.cross_entropy(logits.transpose(1, 2), labels), "read by `transpose`"),
    (lambda logits, labels: F.nll_loss(F.log_softmax(logits, -1).flatten(0, 1), labels.flatten()), "by `log_softmax`"),
    (lambda logits, labels: cross_entropy(logits[:, :, :5], labels.clamp(max=4)), "by `__getitem__`"),
    (
        lambda logits, labels: F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").mean(),
        "every row",
    ),
]


BODIES: List[Tuple[Body, str]] = [
    (no_step, "steps its optimizer once in several batches"),
    (no_backward, "runs no backward pass"),
    (two_steps, "after a step of its optimizer"),
    (closure, "in a closure"),
    (clears_by_hand, "clears gradients itself"),
    (clips_by_hand, "changes or clears gradients itself"),
    (schedules_by_hand, "changes its optimizer's options itself"),
    (loss(lambda logits, labels: logits.square().sum()), "is a sum and no mean"),
    (loss(lambda logits, labels: logits.square().sum() / 1000), "may not be that of its samples"),
    (loss(lambda logits, labels: F.mse_loss(logits, logits.detach() + 1, reduction="sum")), "is a sum and no mean"),
    (loss(lambda logits, labels: logits.square().mean().sqrt()), "`SqrtBackward0` does not add up"),
    (loss(lambda logits, labels: logits.mean() * logits.square().mean()), "`MulBackward0` does not add up"),
    (loss(lambda logits, labels: logits.max()), "does not add up"),
    (loss(contrastive), "compares the samples of a batch with each other"),
    (loss(lambda logits, labels: logits.logsumexp((0, 1, 2))), "does not add up"),
]


@pytest.mark.parametrize(("plan", "program", "reason"), AT_ONCE)
def test_before_anything_is_changed(plan: Dict[str, Any], program: Program, reason: str) -> None:
    check(plan, program, reason)


@pytest.mark.parametrize(("body", "reason"), BODIES)
def test_loops_whose_parts_do_not_add_up(body: Body, reason: str) -> None:
    check({"levers": [MICRO]}, Program(body=body), reason)


@pytest.mark.parametrize(("use", "reason"), SCORES)
def test_scores_that_are_needed_whole(use: Callable[[Any, Any], Any], reason: str) -> None:
    check({"levers": [CHUNKED]}, Program(body=loss(use)), reason)


def test_a_batch_of_another_size() -> None:
    check(
        {"levers": [MICRO], "expects": {"batch": 6}}, LM, "the first batch had 6 rows when the plan was made, and has 8"
    )


def test_packages_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("bitsandbytes", "torchao", "peft"):
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
    check(
        {"levers": [{"name": "optimizer-state", "kind": "8bit"}]},
        LM,
        "neither `bitsandbytes` nor `torchao` is installed",
    )
    check({"levers": [{"name": "lora", "rank": 2}]}, LM, "`peft` is not installed")


@pytest.mark.parametrize("looped", [False, True])
def test_a_batch_that_no_loader_gives_is_not_taken_apart_in_silence(looped: bool) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, labels = torch.utils.data.default_collate(tokens(8))
    applied = apply({"levers": [MICRO]}, model, optimizer)
    try:
        # Another loop, over data that is only looked at.
        with torch.no_grad():
            for _ in torch.utils.data.DataLoader(tokens(8), batch_size=4) if looped else []:  # type: ignore[arg-type]
                pass
        cross_entropy(model(inputs), labels).backward()
        with pytest.raises(PlanRefused) as caught:
            optimizer.step()
    finally:
        applied.undo()
    assert "for a batch that no loader gave it" in caught.value.reason
    optimizer.step()


def test_labels_counted_by_two_losses() -> None:
    def two(logits: Any, labels: Any) -> Any:
        return cross_entropy(logits, labels) + cross_entropy(logits[:, 1:], labels[:, 1:])

    check({"levers": [MICRO]}, Program(loss=two, data=lambda: tokens(16, ignored=True)), "different numbers of labels")


def test_a_buffer_that_would_change_twice() -> None:
    check({"levers": [checkpoint("inner")]}, Program(model=Counting), "`inner.calls` changes in every forward pass")


def test_one_lever_that_does_not_match_takes_back_the_others() -> None:
    model = Net()
    with pytest.raises(PlanRefused):
        apply({"levers": [checkpoint("blocks.0"), {"name": "activation-checkpointing2"}]}, model)
    with pytest.raises(PlanRefused):
        apply({"levers": [MICRO, checkpoint("nowhere")]}, model)
    assert "forward" not in vars(model.blocks[0])
    assert "_wrap" not in repr(torch.optim.Optimizer.zero_grad)


def test_names_are_those_that_plans_use() -> None:
    text = (Path(__file__).resolve().parents[3] / "crates/planner/src/lever_name.rs").read_text()
    assert sorted(re.findall(r'Self::\w+ => "([a-z0-9-]+)"', text)) == sorted(NAMES)
