"""Which rank of a distributed script this process is, and what it does together with the others.

What starts ranks says so in the environment, and a script says so when it sets up its process group; the latter is what
counts. Ranks need each other to finish a step, so none may leave a loop that another one goes on with. None may wait
for the others either, who may wait for it elsewhere: so what all want is done at the next moment that none has come to
yet.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Optional, Tuple

from .course import ALONE, DATA
from .device import Device

# What ranks agree on, as the device numbers it: to end the run, to end the current loop, and how much of the rest of
# the data they run.
_END, _CUT, _DATA = 0, 1, 2


class Ranks:
    """This process among the ranks of a run."""

    def __init__(self, device: Device, *, step: Callable[[], int]) -> None:
        self._device = device
        self._step = step
        self._told: Optional[Tuple[int, int]] = None
        # The last step at whose end was asked.
        self._asked = 0

    def watch(self, torch: Any) -> None:
        """Looks at the environment, and at every set-up of a process group from now on."""
        self.look()
        distributed = getattr(torch, "distributed", None)
        if distributed is None or not distributed.is_available():
            return
        original = distributed.init_process_group

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self._tell(distributed.get_rank(), distributed.get_world_size())
            return result

        distributed.init_process_group = wrapped
        distributed.distributed_c10d.init_process_group = wrapped

    def look(self) -> None:
        """Reads the environment, which a script may have set itself by now."""
        rank, world = _number("RANK"), _number("WORLD_SIZE")
        if self._told is None and rank is not None and world is not None and 0 <= rank < world:
            self._tell(rank, world)

    def agree(self, point: str, wanted: bool) -> bool:
        """Whether all ranks want what this one wants at a point, see `Course`, and do it now."""
        if point == ALONE:
            return wanted
        self.look()
        if point == DATA:
            return self._device.agree(topic=_DATA, moment=0, wanted=wanted)
        # At the end of a step the loop is asked about first, then the run.
        step = self._step()
        topic = _END if step == self._asked else _CUT
        self._asked = step
        return self._device.agree(topic=topic, moment=step, wanted=wanted)

    def forget(self) -> None:
        """In a forked child, which may become another rank."""
        self._told = None

    def _tell(self, rank: int, world: int) -> None:
        if self._told == (rank, world):
            return
        self._told = (rank, world)
        self._device.rank(rank, world)
        self._device.note(kind="rank", rank=rank, world_size=world, local_rank=_number("LOCAL_RANK"))


def _number(name: str) -> Optional[int]:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return None
