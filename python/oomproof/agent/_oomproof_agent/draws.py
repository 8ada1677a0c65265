"""Whether random numbers are drawn while a step is computed.

Which modules draw cannot be told by their names: attention, recurrent layers and stochastic depth draw by arguments,
and loops draw noise of their own. A generator that is asked for numbers moves on, so their states are compared. They
lie on the host, also those of a device's generator, and reading them changes nothing.
"""

from __future__ import annotations

import pickle
import random
import sys
from typing import Any, Optional


class Draws:
    """Compares the states of the generators at two moments."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._before: Optional[int] = None
        # Whether any moved; `None` before it was looked at.
        self.seen: Optional[bool] = None

    def begin(self) -> None:
        self._before = self._state()

    def end(self) -> None:
        """Without a beginning this says nothing."""
        if self._before is not None:
            self.seen = bool(self.seen) or self._state() != self._before
            self._before = None

    def _state(self) -> int:
        torch = self._torch
        generators = [torch.default_generator]
        if torch.cuda.is_initialized():
            generators.extend(torch.cuda.default_generators)
        # An environment need not have NumPy.
        states = [bytes(generator.get_state().tolist()) for generator in generators]
        numpy = sys.modules.get("numpy")
        if numpy is not None and hasattr(numpy, "random"):
            states.append(pickle.dumps(numpy.random.get_state(legacy=False)))
        return hash((tuple(states), random.getstate()))
