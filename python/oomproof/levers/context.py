"""What a lever may look at and change.

There are two ways in. `apply` is given the model and the optimizers. Under `oomproof run --plan` nothing exists yet
when the plan arrives: the optimizers are seen when they are made, and the model when it is first called for training.
A lever therefore says at which of these moments it acts, and asks for objects only through this class.
"""

from __future__ import annotations

import enum
import weakref
from typing import Any, Callable, Dict, List, Optional

from .refusal import PlanRefused


class Moment(enum.Enum):
    """When a lever acts."""

    START = "torch is loaded"
    MODEL = "the model is called for training"


class Context:
    """The script's objects, as far as they are known."""

    def __init__(self, *, torch: Any, expects: Optional[Dict[str, Any]] = None) -> None:
        self.torch = torch
        self.expects = expects or {}
        self.model: Optional[Any] = None
        self.names: List[str] = []
        self._optimizers: List[Any] = []
        self._waiting: List[Callable[[Any], None]] = []
        # What is found wrong after the plan was applied, in the middle of the script's own calls.
        self.on_refused: Callable[[PlanRefused], None] = _raise
        # On a virtual GPU most numbers are not computed, so nothing may depend on them.
        self.values_are_known = True

    def root(self) -> Any:
        assert self.model is not None, "a lever that needs the model acts at the moment of the model"
        return self.model

    def module(self, path: str) -> Any:
        """The module at `path`, whatever stands around the model.

        Raises:
            PlanRefused: There is none.
        """
        found = find(self.root(), path)
        if found is None:
            raise PlanRefused(f"the model has no module `{path}`")
        return found

    def optimizers(self) -> List[Any]:
        alive = [reference() for reference in self._optimizers]
        return [optimizer for optimizer in alive if optimizer is not None]

    def each_optimizer(self, action: Callable[[Any], None]) -> Callable[[], None]:
        """Calls `action` for every optimizer there is and will be; returns what ends this."""
        self._waiting.append(action)
        for optimizer in self.optimizers():
            action(optimizer)
        return lambda: self._waiting.remove(action)

    def met(self, optimizer: Any) -> None:
        """An optimizer exists."""
        if any(known is optimizer for known in self.optimizers()):
            return
        self._optimizers.append(weakref.ref(optimizer))
        for action in list(self._waiting):
            action(optimizer)

    def refuse(self, reason: str, *, lever: str) -> None:
        """What is found while the script runs: an error for those who called `apply`, the end of a run otherwise."""
        self.on_refused(PlanRefused(reason, lever=lever))


def find(root: Any, path: str) -> Optional[Any]:
    """The module at `path` below `root` or below the model that a wrapper such as DDP holds."""
    while True:
        modules = dict(root.named_modules(remove_duplicate=False))
        if path in modules:
            return modules[path]
        inner = getattr(root, "module", None) or getattr(root, "_orig_mod", None)
        if inner is None or not hasattr(inner, "named_modules"):
            return None
        root = inner


def _raise(error: PlanRefused) -> None:
    raise error
