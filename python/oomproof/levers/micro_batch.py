"""A batch is worked on in parts, whose gradients add up to those of the whole.

The loop over a `DataLoader` is where a script's batch is one object, so that is where it is taken apart: the body of
the loop runs once per part, and what must happen once per batch waits for the last (`effects.py`).
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Iterable, List, Optional, Tuple

from . import expectations, splitting
from .context import Context, Moment
from .effects import Effects
from .lever import Undo
from .lightning_batches import LightningBatches
from .parameters import Parameters, count, known
from .patches import Patches
from .refusal import PlanRefused
from .trainer_batches import TrainerBatches

NAME = "micro-batch"
MOMENT = Moment.START
# Loops are taken apart before the model is called, and what it is made of may stand in the way.
LOOKS_AT_MODEL = True

_ACCELERATE = "accelerate.data_loader"


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "chunks")
    count(parameters, "chunks", least=2)
    if context.model is not None:
        return batch_normalization(context, _training(context.model))
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    loops = _Loops(context, chunks=count(parameters, "chunks", least=2))
    return loops.watch()


def batch_normalization(context: Context, modules: Iterable[Tuple[str, Any]]) -> Optional[str]:
    """Why the statistics of a batch stand in the way, if one of `modules` computes them."""
    kind = context.torch.nn.modules.batchnorm._BatchNorm
    for path, module in modules:
        if isinstance(module, kind):
            return f"`{path}` normalizes over the batch, and a part of it has other statistics"
    return None


def _training(model: Any) -> Iterable[Tuple[str, Any]]:
    return ((path, module) for path, module in model.named_modules() if module.training)


class _Loops:
    """Iterations over data."""

    def __init__(self, context: Context, *, chunks: int) -> None:
        self.context = context
        self.chunks = chunks
        self.effects = Effects(context, lever=NAME, may_read=context.values_are_known)
        # Iterators that are asked for a batch right now.
        self.active = 0
        # The last call of `train` or `eval` on any module, where the model is not known yet.
        self._evaluating = False
        self._looked_at: Optional[Any] = None
        self.expected_once = False
        self._looked = False
        self._patches = Patches()
        self.lightning = LightningBatches(
            context,
            chunks=chunks,
            expects=lambda rows: expectations.check_batch(context, rows),
            refused=lambda model: batch_normalization(context, model.named_modules()),
        )
        self.trainer = TrainerBatches(
            context,
            chunks=chunks,
            lever=NAME,
            expects=lambda rows: expectations.check_batch(context, rows),
            refused=lambda model: batch_normalization(context, model.named_modules()),
        )

    def watch(self) -> Undo:
        patches = self._patches
        torch = self.context.torch
        import torch.utils.data as data

        patches.later(self.effects.watch())
        patches.later(self.context.each_optimizer(self._watch_steps))
        patches.wrap(data.DataLoader, "__iter__", self._wrap_iter)
        for kind in _subclasses_with_own(data.DataLoader):
            patches.wrap(kind, "__iter__", self._wrap_iter)
        patches.attribute(data.DataLoader, "__init_subclass__", self._subclassed(data.DataLoader))
        patches.wrap(torch.nn.Module, "train", self._wrap_train)
        patches.later(self.trainer.undo)
        patches.later(self.lightning.undo)
        # Frameworks may be imported later, but they move the model before it trains.
        patches.wrap(torch.nn.Module, "to", self._wrap_to)
        self._look()
        return patches.undo

    def _look(self) -> None:
        """Puts the loops of frameworks in place, once they are imported."""
        self.trainer.look()
        self.lightning.look()
        module = sys.modules.get(_ACCELERATE)
        if module is None or self._looked:
            return
        self._looked = True
        for name in ("DataLoaderShard", "DataLoaderDispatcher"):
            # They are no loaders of torch's but hold one, and ask it for a batch ahead.
            kind = getattr(module, name, None)
            if kind is not None:
                self._patches.wrap(kind, "__iter__", self._wrap_iter)

    def _watch_steps(self, optimizer: Any) -> None:
        """A step for a batch that nothing took apart is one that the plan does not save anything in."""

        def before_step(*_: Any) -> None:
            if not (self.effects.inside or self.inside_framework):
                self.context.refuse("the script steps its optimizer for a batch that no loader gave it", lever=NAME)

        handle = optimizer.register_step_pre_hook(before_step)
        self._patches.later(handle.remove)

    @property
    def inside_framework(self) -> bool:
        """Whether the loop is a framework's, which gets smaller batches instead."""
        return self.trainer.inside or self.lightning.inside

    def trains(self) -> bool:
        """Whether the loop that asks for a batch is one that trains."""
        context = self.context
        if self.inside_framework or not context.torch.is_grad_enabled() or context.torch.is_inference_mode_enabled():
            return False
        if context.model is None:
            return not self._evaluating and bool(context.optimizers())
        if not context.model.training:
            return False
        if self._looked_at is not context.model:
            self._looked_at = context.model
            reason = batch_normalization(context, _training(context.model))
            if reason is not None:
                context.refuse(reason, lever=NAME)
        return True

    def _wrap_iter(self, function: Any) -> Any:
        @functools.wraps(function)
        def iterate(loader: Any) -> Any:
            # Loaders that have an iteration of their own ask another for batches.
            if self.active:
                return function(loader)
            return _Parts(self, loader, function)

        return iterate

    def _subclassed(self, loader: Any) -> Any:
        """`DataLoader.__init_subclass__`, for loaders that are defined later."""
        before = getattr(loader.__init_subclass__, "__func__", None)
        wrap = self._wrap_iter

        def wrapped(cls: Any, /, **kwargs: Any) -> None:
            if before is not None:
                before(cls, **kwargs)
            else:
                super(loader, cls).__init_subclass__(**kwargs)
            if "__iter__" in vars(cls):
                cls.__iter__ = wrap(cls.__iter__)

        return classmethod(wrapped)

    def _wrap_to(self, function: Any) -> Any:
        @functools.wraps(function)
        def to(module: Any, *args: Any, **kwargs: Any) -> Any:
            self._look()
            return function(module, *args, **kwargs)

        return to

    def _wrap_train(self, function: Any) -> Any:
        @functools.wraps(function)
        def train(module: Any, mode: bool = True) -> Any:
            self._evaluating = not mode
            return function(module, mode)

        return train


class _Parts:
    """An iterator of a loader's own making that gives each batch in parts."""

    def __init__(self, loops: _Loops, loader: Any, function: Any) -> None:
        self._loops = loops
        self._loader = loader
        self._waiting: List[Any] = []
        self._reading: Optional[splitting.Reading] = None
        self._split = False
        self._iterator = self._within(function, loader)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        effects = self._loops.effects
        if self._split:
            effects.part_ended()
        if self._waiting:
            return self._waiting.pop(0)
        self._split = False
        batch = self._within(next, self._iterator)
        if self._loops.trains():
            self._take_apart(batch)
            return self._waiting.pop(0)
        return batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)

    def __del__(self) -> None:
        # A loop that is left early has no part that is its last.
        if self._split:
            self._loops.effects.end()

    def _within(self, function: Any, argument: Any) -> Any:
        self._loops.active += 1
        try:
            return function(argument)
        finally:
            self._loops.active -= 1

    def _take_apart(self, batch: Any) -> None:
        context, torch = self._loops.context, self._loops.context.torch
        try:
            if self._reading is None:
                self._reading, total = splitting.read(torch, batch, expected=_batch_size(self._loader))
                if not self._loops.expected_once:
                    expectations.check_batch(context, total)
                    self._loops.expected_once = True
            else:
                found = splitting.rows(torch, batch, self._reading)
                if found is None:
                    raise PlanRefused("batches of one loader are made in different ways")
                total = found
        except PlanRefused as error:
            context.refuse(error.reason, lever=NAME)
            self._waiting = [batch]
            return
        sizes = splitting.sizes(total, self._loops.chunks)
        self._waiting = splitting.split(torch, batch, self._reading, sizes)
        self._split = True
        self._loops.effects.begin(sizes)


def _batch_size(loader: Any) -> Optional[int]:
    for owner in (loader, getattr(loader, "batch_sampler", None)):
        size = getattr(owner, "batch_size", None)
        if type(size) is int:
            return size
    return None


def _subclasses_with_own(kind: Any) -> List[Any]:
    found = []
    for each in kind.__subclasses__():
        if "__iter__" in vars(each):
            found.append(each)
        found.extend(_subclasses_with_own(each))
    return found
