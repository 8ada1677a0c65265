"""Micro-batches under Lightning, where it is installed; CI has none, so this is run by hand:

`OOMPROOF_TEST_STANDINS=FOLDER PYTHON -m pytest tests/python/levers/test_lightning.py`
"""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Tuple

import pytest
import real_torch  # noqa: F401 - before torch
import torch
from levers import PlanRefused, apply
from torch import nn
from training import Convolutions, Net, cross_entropy, images, tokens

lightning = pytest.importorskip("lightning.pytorch")

ROUNDING = 2e-6
QUIET = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
         "enable_model_summary": False, "max_epochs": 2}  # fmt: skip


class Module(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self, model: nn.Module, loss: Any = cross_entropy) -> None:
        super().__init__()
        self.model, self.loss = model, loss
        self.rows: List[int] = []

    def training_step(self, batch: Any, _: int) -> Any:
        self.rows.append(len(batch[0]))
        return self.loss(self.model(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Manual(Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.automatic_optimization = False


def train(module: Any, chunks: int, *, data: Any = None, loader: Any = None, **options: Any) -> Any:
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    rows = tokens(24) if data is None else data
    loader = loader or torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True)
    trainer = lightning.Trainer(**{**QUIET, **options})
    applied = apply({"levers": [{"name": "micro-batch", "chunks": chunks}]}, module) if chunks > 1 else None
    try:
        trainer.fit(module, loader)
    finally:
        if applied is not None:
            applied.undo()
    assert trainer.accumulate_grad_batches == options.get("accumulate_grad_batches", 1)
    return module


def made(kind: Any = Module, model: Any = Net, **more: Any) -> Any:
    torch.manual_seed(0)
    return kind(model(), **more)


CASES: List[Tuple[int, Dict[str, Any]]] = [
    (2, {}),
    (4, {}),
    (2, {"accumulate_grad_batches": 2}),
    (4, {"gradient_clip_val": 0.1}),
]


@pytest.mark.parametrize(("chunks", "options"), CASES)
def test_a_planned_run_leaves_the_same(chunks: int, options: Dict[str, Any]) -> None:
    expected, got = train(made(), 1, **options), train(made(), chunks, **options)
    assert set(expected.rows) == {8} and set(got.rows) == {8 // chunks}
    assert len(got.rows) == chunks * len(expected.rows)
    torch.testing.assert_close(got.state_dict(), expected.state_dict(), rtol=ROUNDING, atol=ROUNDING)


class Batches:
    def __iter__(self) -> Any:
        return iter([torch.utils.data.default_collate(tokens(8))])

    def __len__(self) -> int:
        return 1


def ignoring() -> Any:
    return {"data": tokens(24, ignored=True)}


REFUSED: List[Tuple[int, Any, Dict[str, Any], str]] = [
    (3, Module, {}, "the loader's batch of 8 is no multiple of 3"),
    (2, Module, {"data": tokens(20)}, "the loader's last batch is smaller"),
    (2, Module, ignoring(), "labels are ignored, and Lightning divides by the number of batches"),
    (2, Manual, {}, "by manual optimization"),
    (2, Module, {"limit_train_batches": 2}, "`limit_train_batches` of the trainer counts batches"),
    (2, Module, {"val_check_interval": 1}, "`val_check_interval` of the trainer counts batches"),
    (2, Module, {"loader": Batches()}, "Lightning's batches come from a `Batches`"),
]


@pytest.mark.parametrize(("chunks", "kind", "options", "reason"), REFUSED)
def test_refused(chunks: int, kind: Any, options: Dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        train(made(kind), chunks, **options)
    assert reason in caught.value.reason


def test_statistics_and_sums_are_refused() -> None:
    with pytest.raises(PlanRefused, match="normalizes over the batch"):
        train(made(model=Convolutions, loss=nn.CrossEntropyLoss()), 2, data=images(24))
    with pytest.raises(PlanRefused, match="is a sum and no mean"):
        # As many batches as a part has rows: what Lightning divides by makes no mean of it.
        loader = torch.utils.data.DataLoader(tokens(24), batch_size=4)  # type: ignore[arg-type]
        train(made(loss=lambda scores, _: scores.square().sum()), 2, loader=loader)
