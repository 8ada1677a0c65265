"""Loops over data, cut short once they have nothing new to show.

Every kind of `DataLoader`, with and without workers and below the wrappers of the frameworks, asks one base class for
its batches. There the data of a loop ends early: the loop ends as it would at the end of its data, and what the
script does next is reached. A loop that does no work on the device is never cut, because what it collects is needed.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from typing import Any, Callable, Dict, List, Optional

from .batches import Size, size
from .consumers import takes_an_end
from .course import Course
from .device import Device
from .names import ALLOCATED, EVENTS, KERNELS, STEP_PEAK_ALLOCATED, STEP_PEAK_RESERVED
from .ragged import Walk, walk
from .steady import BLOCK, Steady
from .steps import Steps

# Batches of a first, second and later loop without training steps.
_LEAST_BATCHES = (3, 2)
# Growth that adds up to less than this over the rest of the data is of no concern: one small segment.
_NEGLIGIBLE = 2 << 20
# A loop that keeps more with every batch is worth running for this long, because its last batch is its highest.
_GROWING_SECONDS = 60.0
# Before training a script may collect what it trains on, so such a loop is cut only when it is long.
_COLLECTING_SECONDS = 10.0
_COLLECTING_BATCHES = 8
_PASS = "_oomproof_pass"


class Pass:
    """One loop over a loader."""

    def __init__(self, *, earlier: int, length: Optional[int], began: float) -> None:
        self.earlier = earlier
        self.length = length
        self.began = began
        self.yielded = 0
        self.over = False
        self.cuttable = True
        self.walked = False
        self.sizes: Dict[Size, int] = {}
        self.found: Optional[Walk] = None
        self.fed: List[Any] = []
        self.times_fed = 0
        # Steps and work on the device, when the last batch was given.
        self.steps_at_start = 0
        self.backwards_at_start = 0
        self.steps = 0
        self.work = 0
        self.active = False
        self.peaks: List[int] = []
        self.reserved: List[int] = []
        self.levels: List[int] = []

    @property
    def ragged(self) -> bool:
        """The batches differ; a smaller last one is no difference."""
        if len(self.sizes) < 2:
            return False
        last_is_smaller = len(self.sizes) == 2 and self.yielded == self.length
        return not last_is_smaller

    @property
    def growth(self) -> int:
        """By how much each batch leaves more than the one before."""
        recent = self.levels[-3:]
        rises = [later - earlier for earlier, later in zip(recent, recent[1:])]
        return min(rises) if len(rises) == 2 and min(rises) > 0 else 0

    @property
    def rest(self) -> Optional[int]:
        return None if self.length is None else max(0, self.length - self.yielded)


class Loaders:
    """Counts batches, asks `Course` whether a loop may end, and ends it."""

    def __init__(
        self,
        device: Device,
        course: Course,
        steady: Steady,
        steps: Steps,
        *,
        place: Callable[[], Optional[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._course = course
        self._steady = steady
        self._steps = steps
        self._place = place
        self._clock = clock
        self._off = False
        self._seen: Dict[int, int] = {}
        self._watches: Dict[int, Any] = {}
        self._ragged: List[Pass] = []
        self._module: Optional[Any] = None

    def step_aside(self) -> None:
        """For good: in a worker the script's loops over data are not ours."""
        self._off = True

    def watch(self, module: Any) -> None:
        """`module` is `torch.utils.data.dataloader`."""
        self._module = module
        loader, base = module.DataLoader, module._BaseDataLoaderIter
        loader.__iter__ = self._wrap_iter(loader.__iter__)
        base.__next__ = self._wrap_next(base.__next__)

    def _wrap_iter(self, function: Any) -> Any:
        @functools.wraps(function)
        def __iter__(loader: Any) -> Any:
            iterator = function(loader)
            if not self._off:
                setattr(iterator, _PASS, self._begin(loader, iterator))
            return iterator

        return __iter__

    def _wrap_next(self, function: Any) -> Any:
        @functools.wraps(function)
        def __next__(iterator: Any) -> Any:
            current: Optional[Pass] = iterator.__dict__.get(_PASS)
            if current is None or self._off:
                return function(iterator)
            if self._ends(current, iterator, sys._getframe(1)):
                current.over = True
                raise StopIteration
            try:
                batch = self._feed(current) if current.fed else function(iterator)
            except StopIteration:
                current.over = True
                raise
            self._given(current, batch)
            return batch

        return __next__

    @staticmethod
    def _feed(current: Pass) -> Any:
        current.times_fed += 1
        return current.fed.pop(0)

    def _begin(self, loader: Any, iterator: Any) -> Pass:
        current = Pass(earlier=self._count(loader), length=_length(iterator), began=self._clock())
        current.steps_at_start = current.steps = self._steps.count
        current.backwards_at_start = self._steps.backwards
        self._steady.pass_begins()
        self._course.pass_begins()
        current.work = self._work()
        if current.earlier == 0:
            self._course.news()
        return current

    def _count(self, loader: Any) -> int:
        """How many loops there were over the same data."""
        owner = _watchable(getattr(loader, "dataset", None)) or loader
        key = id(owner)
        if key not in self._watches:

            def forget(_: Any) -> None:
                self._seen.pop(key, None)
                self._watches.pop(key, None)

            self._watches[key] = weakref.ref(owner, forget)
        count = self._seen.get(key, 0)
        self._seen[key] = count + 1
        return count

    def _work(self) -> int:
        return self._device.counter(EVENTS) + self._device.counter(KERNELS)

    def _given(self, current: Pass, batch: Any) -> None:
        current.yielded += 1
        try:
            found = size(batch)
        except Exception:  # noqa: BLE001 - a batch that cannot be looked at is given all the same
            return
        current.sizes[found] = current.sizes.get(found, 0) + 1
        if current.ragged and self._trains(current):
            self._steady.ragged = True
            if current not in self._ragged:
                self._ragged.append(current)

    def _trains(self, current: Pass) -> bool:
        # Before the first step come the backward passes of its micro-batches.
        return self._steps.count > current.steps_at_start or self._steps.backwards > current.backwards_at_start

    def _ends(self, current: Pass, iterator: Any, consumer: Any) -> bool:
        """Whether the loop is over for us; called before every batch."""
        if current.over:
            return True
        steps, work = self._steps.count, self._work()
        stepped, worked = steps > current.steps, work > current.work
        current.steps, current.work = steps, work
        current.active = current.active or worked
        if worked and not self._trains(current):
            current.peaks.append(self._device.counter(STEP_PEAK_ALLOCATED))
            current.reserved.append(self._device.counter(STEP_PEAK_RESERVED))
            current.levels.append(self._device.counter(ALLOCATED))
        self._course.look()
        if current.fed or current.yielded == 0:
            return False
        wanted = self._wants(current, stepped=stepped, worked=worked)
        if wanted and current.cuttable and not takes_an_end(consumer):
            current.cuttable = False
        if not self._course.agree(wanted and current.cuttable):
            return False
        if not current.walked:
            current.walked = True
            if current.earlier == 0:
                self._look_further(current, iterator)
                if current.fed:
                    return False
        self._cut(current, iterator)
        return True

    def _wants(self, current: Pass, *, stepped: bool, worked: bool) -> bool:
        if self._trains(current):
            return stepped and self._course.settled and self._course.pass_reason is not None
        return worked and self._shown(current)

    def _shown(self, current: Pass) -> bool:
        """Whether a loop without training has nothing new to show."""
        peaks, reserved = current.peaks, current.reserved
        took = self._clock() - current.began
        if not self._steps.count and (len(peaks) < _COLLECTING_BATCHES or took < _COLLECTING_SECONDS):
            return False
        if len(peaks) < _LEAST_BATCHES[min(current.earlier, len(_LEAST_BATCHES) - 1)]:
            return False
        if self._grows(current):
            return took > _GROWING_SECONDS
        return peaks[-1] < peaks[-2] + BLOCK and reserved[-1] <= reserved[-2]

    def _grows(self, current: Pass) -> bool:
        growth, rest = current.growth, current.rest
        return growth * (1024 if rest is None else rest) > _NEGLIGIBLE

    def _look_further(self, current: Pass, iterator: Any) -> None:
        """Finds the largest batches of the rest of the data, to be given before the end."""
        found = walk(iterator, self._module, seen=current.sizes, clock=self._clock)
        current.found = found
        if found is None:
            return
        times = 1
        done = self._steps.count - current.steps_at_start
        if done > 0:
            times = max(1, round(current.yielded / done))
        current.fed = [batch for batch in found.batches for _ in range(times)]

    def _cut(self, current: Pass, iterator: Any) -> None:
        trains = self._trains(current)
        self._device.note(
            kind="cut",
            where=self._place(),
            batches=current.yielded,
            of=current.length,
            reason=self._course.pass_reason if trains else "steady",
            training=trains,
            step=self._steps.count,
        )
        self._tell_sizes(current)
        if not trains and self._grows(current):
            self._tell_growth(current)
        shut_down = getattr(iterator, "_shutdown_workers", None)
        if shut_down is not None and not getattr(iterator, "_persistent_workers", False):
            shut_down()

    def conclude(self) -> None:
        """The run is ended while loops are under way."""
        for current in self._ragged:
            if not current.over:
                self._tell_sizes(current)

    def _tell_sizes(self, current: Pass) -> None:
        if not current.ragged or current.earlier:
            return
        largest = max(current.sizes, key=lambda entry: entry.bytes)
        found = current.found
        # What was given of the batches that were looked at counts once.
        looked = current.yielded - current.times_fed + (found.looked if found is not None else 0)
        left = found.left if found is not None else current.rest
        if left == 0:
            kind, rest = "largest_batch_run", "all were looked at"
        else:
            kind = "ragged_batches"
            rest = "the others were not looked at" if left is None else f"{left} were not looked at"
        self._device.note(
            kind="assumption",
            assumption=kind,
            text=f"batches differ in size; the largest of {looked} that were seen, {largest.words()}, was run, and {rest}",
            where=self._place(),
        )

    def _tell_growth(self, current: Pass) -> None:
        rest = "the rest of the data" if current.rest is None else f"{current.rest} more batches"
        self._device.note(
            kind="assumption",
            assumption="evaluation_grows",
            text=f"each batch of the loop left {current.growth} bytes more than the one before, and {rest} were not run",
            where=self._place(),
        )


def _length(iterator: Any) -> Optional[int]:
    """Number of batches, for data that has an order; asking other data for it would have effects."""
    try:
        return len(iterator._index_sampler) if iterator._sampler_iter is not None and _is_map(iterator) else None
    except Exception:  # noqa: BLE001 - samplers may have no length
        return None


def _is_map(iterator: Any) -> bool:
    return int(iterator._dataset_kind) == 0


def _watchable(value: Any) -> Optional[Any]:
    if value is None:
        return None
    try:
        weakref.ref(value)
    except TypeError:
        return None
    return value
