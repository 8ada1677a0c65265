"""Micro-batches under Lightning, by its own accumulation.

Lightning fetches batches ahead, counts them and decides by that count when it steps, so they are not taken apart but
its loader is asked for smaller ones: a part of the batch size, and as many more of them per step. It divides each loss
by the number of batches, which is right only where all of them count equally many samples and labels.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Optional

from . import loss_reduction
from .context import Context
from .patches import Patches
from .refusal import PlanRefused

# The script calls functions of this file itself.
OF_LEVER = "micro-batch"

_MODULES = ("lightning.pytorch.loops.fit_loop", "pytorch_lightning.loops.fit_loop")


class LightningBatches:
    """Lightning's loop, with smaller batches."""

    def __init__(
        self,
        context: Context,
        *,
        chunks: int,
        expects: Callable[[int], None],
        refused: Callable[[Any], Any],
    ) -> None:
        self._context = context
        self._chunks = chunks
        self._expects = expects
        self._refused = refused
        self._inside: Optional[Any] = None
        # Rows of the batches that are trained on.
        self._size = 1
        self._watched = [False] * len(_MODULES)
        self._patches = Patches()

    @property
    def inside(self) -> bool:
        """Whether Lightning's loop is running, whose batches are its own."""
        return self._inside is not None

    def look(self) -> None:
        """Puts the loop in place once its module is there."""
        for position, name in enumerate(_MODULES):
            module = sys.modules.get(name)
            kind = getattr(module, "_FitLoop", None)
            if kind is None or self._watched[position]:
                continue
            if not any(self._watched):
                self._patches.wrap(self._context.torch.autograd, "backward", self._backward)
            self._watched[position] = True
            self._patches.wrap(kind, "run", self._run)
            if not self._patches.wrap(module, "_process_dataloader", self._process):
                self._context.refuse("this release of Lightning makes its loaders in another way", lever=OF_LEVER)

    def undo(self) -> None:
        self._patches.undo()

    def _run(self, function: Any) -> Any:
        @functools.wraps(function)
        def run(loop: Any) -> Any:
            trainer = loop.trainer
            before = trainer.accumulate_grad_batches
            self._refuse_where(lambda: self._check(trainer))
            trainer.accumulate_grad_batches = before * self._chunks
            self._inside = trainer
            try:
                return function(loop)
            finally:
                self._inside = None
                trainer.accumulate_grad_batches = before

        return run

    def _check(self, trainer: Any) -> None:
        module = trainer.lightning_module
        reason = self._refused(module)
        if reason is not None:
            raise PlanRefused(reason)
        if not module.automatic_optimization:
            raise PlanRefused("the module steps its optimizer itself, by manual optimization")
        if trainer.world_size > 1:
            raise PlanRefused("Lightning deals the data out to several ranks")
        if trainer.strategy.handles_gradient_accumulation:
            raise PlanRefused(f"`{type(trainer.strategy).__name__}` accumulates gradients itself")
        if any(type(each).__name__ == "GradientAccumulationScheduler" for each in trainer.callbacks):
            raise PlanRefused("a `GradientAccumulationScheduler` says how many batches make a step")
        for name, plain in (("limit_train_batches", 1.0), ("overfit_batches", 0.0), ("val_check_interval", 1.0)):
            # A whole number of them, even 1, is one of batches.
            value = getattr(trainer, name)
            if type(value) is not float or value != plain:
                raise PlanRefused(f"`{name}` of the trainer counts batches, of which there would be more")

    def _process(self, function: Any) -> Any:
        @functools.wraps(function)
        def process(trainer: Any, trainer_fn: Any, stage: Any, loader: Any) -> Any:
            if self._inside is trainer:
                loader = self._refuse_where(lambda: self._smaller(loader)) or loader
            return function(trainer, trainer_fn, stage, loader)

        return process

    def _smaller(self, loader: Any) -> Any:
        import torch.utils.data as data

        if type(loader) is not data.DataLoader:
            raise PlanRefused(f"Lightning's batches come from a `{type(loader).__name__}`")
        size = loader.batch_size
        if size is None or type(loader.batch_sampler) is not data.BatchSampler:
            raise PlanRefused("the loader has a sampler of its own that makes batches")
        self._expects(size)
        if size % self._chunks:
            raise PlanRefused(f"the loader's batch of {size} is no multiple of {self._chunks}")
        rows = _length(loader.sampler)
        if rows is None or rows % size:
            raise PlanRefused("the loader's last batch is smaller, and would count as much as the others")
        self._size = size // self._chunks
        return data.DataLoader(
            loader.dataset,
            batch_size=self._size,
            sampler=loader.sampler,
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            generator=loader.generator,
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
        )

    def _backward(self, function: Any) -> Any:
        @functools.wraps(function)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside is not None:
                self._refuse_where(lambda: self._require_adding_up(tensors))
            return function(tensors, *args, **kwargs)

        return backward

    def _require_adding_up(self, tensors: Any) -> None:
        losses = [tensors] if isinstance(tensors, self._context.torch.Tensor) else list(tensors)
        known = self._context.values_are_known
        for loss in losses:
            found = loss_reduction.of(_Undivided(loss), samples=self._size, may_read=known, model=self._context.model)
            count = found.count
            if known and count is not None and (count.rows is None or float(count.total) != count.rows):
                raise PlanRefused("labels are ignored, and Lightning divides by the number of batches")

    def _refuse_where(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except PlanRefused as error:
            self._context.refuse(error.reason, lever=OF_LEVER)
            return None


class _Undivided:
    """A loss as the module gave it, before Lightning divided it and a scaler scaled it."""

    def __init__(self, loss: Any) -> None:
        node = loss.grad_fn
        while node is not None and node.name().startswith("MulBackward"):
            node = node.next_functions[0][0]
        divided = node is not None and node.name().startswith("DivBackward")
        self.grad_fn = node.next_functions[0][0] if divided else node


def _length(data: Any) -> Optional[int]:
    try:
        return len(data)
    except TypeError:
        return None
