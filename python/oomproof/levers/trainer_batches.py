"""Micro-batches of Hugging Face's `Trainer`, by its own arguments.

The trainer fetches the batches of a step ahead and counts them itself, so they are not taken apart but asked for
smaller: a part of the batch size, and as many more of them per step. What it divides the loss by is its own affair: the
labels of the whole step where the model takes their number, and otherwise the number of batches, which is only right
when all batches count equally many labels.
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

_MODULE = "transformers.trainer"


class TrainerBatches:
    """The trainer's loop, with smaller batches."""

    def __init__(
        self,
        context: Context,
        *,
        chunks: int,
        lever: str,
        expects: Callable[[int], None],
        refused: Callable[[Any], Any],
    ) -> None:
        self._context = context
        self._chunks = chunks
        self._lever = lever
        self._expects = expects
        self._refused = refused
        self._inside: Optional[Any] = None
        self._watching = False
        self._patches = Patches()

    @property
    def inside(self) -> bool:
        """Whether the trainer's loop is running, whose batches are its own."""
        return self._inside is not None

    def look(self) -> None:
        """Puts the loop in place once the trainer's module is there."""
        module = sys.modules.get(_MODULE)
        kind = getattr(module, "Trainer", None)
        if self._watching or kind is None:
            return
        self._watching = True
        self._patches.wrap(kind, "_inner_training_loop", self._loop)
        self._patches.wrap(self._context.torch.autograd, "backward", self._backward)

    def undo(self) -> None:
        self._patches.undo()

    def _loop(self, function: Any) -> Any:
        @functools.wraps(function)
        def loop(trainer: Any, batch_size: Any = None, args: Any = None, *more: Any, **options: Any) -> Any:
            args = trainer.args if args is None else args
            size = batch_size or args.train_batch_size
            try:
                self._check(trainer, args, size)
            except PlanRefused as error:
                self._context.refuse(error.reason, lever=self._lever)
            before = args.per_device_train_batch_size, args.gradient_accumulation_steps
            # Releases differ in whether they take the size that the loop is given.
            trainer._train_batch_size = size // self._chunks
            args.per_device_train_batch_size = before[0] // self._chunks
            args.gradient_accumulation_steps = before[1] * self._chunks
            self._inside = trainer
            try:
                return function(trainer, size // self._chunks, args, *more, **options)
            finally:
                self._inside = None
                trainer._train_batch_size = size
                args.per_device_train_batch_size, args.gradient_accumulation_steps = before

        return loop

    def _check(self, trainer: Any, args: Any, size: int) -> None:
        self._expects(size)
        reason = self._refused(trainer.model)
        if reason is not None:
            raise PlanRefused(reason)
        if args.auto_find_batch_size:
            raise PlanRefused("the trainer looks for a batch size itself")
        if size % self._chunks:
            raise PlanRefused(f"the trainer's batch of {size} is no multiple of {self._chunks}")
        grouped = getattr(args, "group_by_length", False)
        if grouped or "length" in str(getattr(args, "train_sampling_strategy", "")):
            raise PlanRefused("the trainer groups samples by length, and would group them otherwise")
        rows = _length(trainer.train_dataset)
        dropped = bool(args.dataloader_drop_last)
        if dropped and (rows is None or rows % size):
            raise PlanRefused("the trainer drops the last batch, and would drop less of the data")
        if not _takes_counts(trainer) and (rows is None or rows % (size // self._chunks)):
            raise PlanRefused("the trainer's last batch is smaller, and would count as much as the others")

    def _backward(self, function: Any) -> Any:
        @functools.wraps(function)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside is not None:
                try:
                    self._require_adding_up(tensors, self._inside)
                except PlanRefused as error:
                    self._context.refuse(error.reason, lever=self._lever)
            return function(tensors, *args, **kwargs)

        return backward

    def _require_adding_up(self, loss: Any, trainer: Any) -> None:
        if _takes_counts(trainer):
            if not loss_reduction.is_divided_sum(loss):
                raise PlanRefused("the model takes the number of labels of a whole step, and does not divide by it")
            return
        if not self._context.values_are_known:
            return
        count = loss_reduction.of(loss, samples=1, may_read=True).count
        if count is not None and (count.rows is None or float(count.total) != count.rows):
            raise PlanRefused("labels are ignored, and the model does not take the number of labels of a whole step")


def _takes_counts(trainer: Any) -> bool:
    """Whether the loss is divided by the labels of all batches of a step."""
    return bool(trainer.model_accepts_loss_kwargs or trainer.compute_loss_func is not None)


def _length(data: Any) -> Optional[int]:
    try:
        return len(data)
    except TypeError:
        return None
