"""Loops of frameworks that count for themselves.

A framework that evaluates every so many steps, or trains until a number of steps, would neither evaluate nor end when
its data is cut short. Each has a switch of its own for both, and those are used: evaluation and saving are brought
forward to the end of the first epoch that was cut, and training is told to end after some epochs without anything new.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .importhook import ImportHook
from .loaders import Loaders

# Epochs that were cut before training is told to end.
_EPOCHS = 3
_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


class Frameworks:
    """Uses the switches when `Loaders` has cut training."""

    def __init__(self, loaders: Loaders, note: Callable[..., None]) -> None:
        self._loaders = loaders
        self._note = note
        self._brought_forward = False
        self._ended = False

    def watch(self, imports: ImportHook) -> None:
        imports.when_loaded("transformers.trainer_callback", self._watch_transformers)
        for package in _LIGHTNING:
            imports.when_loaded(f"{package}.loops.fit_loop", self._watch_fit_loop)
            imports.when_loaded(f"{package}.loops.training_epoch_loop", self._watch_epoch_loop)

    def _watch_transformers(self, module: Any) -> None:
        flow = module.DefaultFlowCallback
        original = flow.on_epoch_end

        @functools.wraps(original)
        def on_epoch_end(callback: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            control = original(callback, args, state, control, **kwargs) or control
            if self._loaders.training_cuts and not self._brought_forward:
                self._brought_forward = True
                control.should_evaluate |= _by_steps(args, "eval_strategy")
                control.should_save |= _by_steps(args, "save_strategy")
            if self._enough():
                control.should_training_stop = True
            return control

        flow.on_epoch_end = on_epoch_end

    def _watch_fit_loop(self, module: Any) -> None:
        loop = module._FitLoop
        original = loop.on_advance_end

        @functools.wraps(original)
        def on_advance_end(fit: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(fit, *args, **kwargs)
            if self._enough():
                fit.trainer.should_stop = True
            return result

        loop.on_advance_end = on_advance_end

    def _watch_epoch_loop(self, module: Any) -> None:
        loop = module._TrainingEpochLoop
        original = loop._should_check_val_fx

        @functools.wraps(original)
        def should_check(epoch: Any, *args: Any, **kwargs: Any) -> bool:
            if original(epoch, *args, **kwargs):
                return True
            return bool(self._loaders.at_end and epoch._should_check_val_epoch())

        loop._should_check_val_fx = should_check

    def _enough(self) -> bool:
        if self._loaders.training_cuts < _EPOCHS:
            return False
        if not self._ended:
            self._ended = True
            self._note(
                kind="assumption",
                assumption="epochs_skipped",
                text=f"training was told to end after {_EPOCHS} epochs that showed its peak; --full runs all",
                where=None,
            )
        return True


def _by_steps(args: Any, name: str) -> bool:
    strategy = getattr(args, name, None)
    return str(getattr(strategy, "value", strategy)) == "steps"
