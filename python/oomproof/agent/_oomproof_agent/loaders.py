"""Loops over data, cut short once they have nothing new to show.

Every kind of `DataLoader`, with and without workers and below the wrappers of the frameworks, asks one base class for
its batches. There the data of a loop ends early: the loop ends as it would at the end of its data, and what the
script does next is reached. A loop that does no work on the device is never cut, because what it collects is needed.
No batch is kept once it was given: the script may move it to the device in place.
"""

from __future__ import annotations

import functools
import sys
import time
import types
import weakref
from typing import Any, Callable, Dict, List, Optional, Set

from .batches import size
from .consumers import takes_an_end
from .course import ALONE, DATA, Course
from .device import Device
from .names import ALLOCATED, EVENTS, KERNELS, STEP_PEAK_ALLOCATED, STEP_PEAK_RESERVED
from .passes import Pass
from .ragged import take, walk
from .steady import BLOCK, Steady
from .steps import Steps

# Batches of a first, second and later loop without training steps.
_LEAST_BATCHES = (3, 2)
# Growth that adds up to less than this over the rest of the data is of no concern: one small segment.
_NEGLIGIBLE = 2 << 20
# Growth needs as many to be seen; where it was seen once, it is looked for again.
_GROWING_BATCHES = 4
# A loop that keeps more with every batch is worth running for this long, because its last batch is its highest.
_GROWING_SECONDS = 60.0
# Before training a script may collect what it trains on, so such a loop is cut only when it is long.
_COLLECTING_SECONDS = 10.0
_COLLECTING_BATCHES = 8
_PASS = "_oomproof_pass"


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
        self._grew: Set[int] = set()
        # The last loop that could not be cut had no training steps.
        self._cuttable = True
        # Loops with training steps that were cut.
        self.training_cuts = 0
        # Steps when the last batch of any loop was given.
        self._steps_at_batch = 0
        self._ragged: List[Pass] = []
        self._module: Optional[Any] = None

    @property
    def ending(self) -> bool:
        """Whether training has shown its peak in the loop over data that the last step was in."""
        return self._cuttable and self._course.settled and self._course.pass_reason is not None

    @property
    def at_end(self) -> bool:
        """Whether the last batch was the last of a loop with training steps, which is about to be cut."""
        return self.ending and self._steps.count > self._steps_at_batch

    def step_aside(self) -> None:
        """For good: in a worker the script's loops over data are not ours."""
        self._off = True

    def watch(self, module: Any) -> None:
        """`module` is `torch.utils.data.dataloader`."""
        self._module = module
        loader, base = module.DataLoader, module._BaseDataLoaderIter
        loader.__iter__ = self._wrap_iter(loader.__iter__)
        loader._get_iterator = self._wrap_maker(loader._get_iterator)
        self._watch_subclasses(loader)
        base.__next__ = self._wrap_next(base.__next__)

    def _wrap_maker(self, function: Any) -> Any:
        """`DataLoader._get_iterator`, below which every iterator is made."""

        @functools.wraps(function)
        def wrapped(loader: Any) -> Any:
            iterator = function(loader)
            self._mark(loader, iterator)
            return iterator

        return wrapped

    def _wrap_iter(self, function: Any) -> Any:
        """`DataLoader.__iter__`, which gives an iterator with workers a second time."""

        @functools.wraps(function)
        def wrapped(loader: Any) -> Any:
            iterator = function(loader)
            current = getattr(iterator, "__dict__", {}).get(_PASS)
            if current is not None and (current.over or current.yielded):
                self._mark(loader, iterator)
            return iterator

        return wrapped

    def _wrap_own(self, function: Any) -> Any:
        """`__iter__` of a loader that has its own, such as one whose data never ends."""

        @functools.wraps(function)
        def wrapped(loader: Any) -> Any:
            iterator = function(loader)
            if self._off or _PASS in getattr(iterator, "__dict__", {}):
                return iterator
            current = self._begin(loader, earlier=self._count(loader), length=_own_length(loader))
            return _Loop(self._next, iterator, current)

        return wrapped

    def _watch_subclasses(self, loader: Any) -> None:
        wrap = self._wrap_own

        def wrapped(cls: Any, /, **kwargs: Any) -> None:
            super(loader, cls).__init_subclass__(**kwargs)
            own = cls.__dict__.get("__iter__")
            if own is not None:
                cls.__iter__ = wrap(own)

        loader.__init_subclass__ = classmethod(wrapped)

    def _mark(self, loader: Any, iterator: Any) -> None:
        if self._off or not hasattr(iterator, "__dict__"):
            return
        earlier = self._count(_data_of(loader))
        setattr(iterator, _PASS, self._begin(loader, earlier=earlier, length=_length(iterator)))

    def _wrap_next(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(iterator: Any) -> Any:
            current: Optional[Pass] = iterator.__dict__.get(_PASS)
            if current is None or self._off:
                return function(iterator)
            return self._next(function, iterator, current, sys._getframe(1))

        return wrapped

    def _next(self, function: Any, iterator: Any, current: Pass, consumer: Any) -> Any:
        if self._ends(current, iterator, consumer):
            current.over = True
            raise StopIteration
        try:
            batch = self._feed(current, iterator) if current.fed else function(iterator)
            current.owed = max(0, current.owed - 1)
        except StopIteration:
            current.over = True
            raise
        self._given(current, batch)
        return batch

    def _feed(self, current: Pass, iterator: Any) -> Any:
        current.times_fed += 1
        return take(current.fed, iterator=iterator, module=self._module)

    def _begin(self, loader: Any, *, earlier: int, length: Optional[int]) -> Pass:
        current = Pass(earlier=earlier, length=length, began=self._clock())
        current.key = id(_data_of(loader))
        current.steps_at_start = current.steps = self._steps.count
        current.backwards_at_start = self._steps.backwards
        current.work = self._work()
        self._steady.pass_begins()
        if earlier == 0:
            self._course.news()
        return current

    def _count(self, owner: Any) -> int:
        """How many loops there were over the same data."""
        key = id(owner)
        if key not in self._watches:

            def forget(_: Any) -> None:
                self._seen.pop(key, None)
                self._watches.pop(key, None)
                self._grew.discard(key)

            self._watches[key] = weakref.ref(owner, forget)
        count = self._seen.get(key, 0)
        self._seen[key] = count + 1
        return count

    def _work(self) -> int:
        return self._device.counter(EVENTS) + self._device.counter(KERNELS)

    def _given(self, current: Pass, batch: Any) -> None:
        current.yielded += 1
        self._steps_at_batch = self._steps.count
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
        if not self._trains(current):
            self._course.look(ALONE)
        if current.ending:
            # The rest of the data was looked at and is gone.
            self._cut(current, iterator)
            return True
        if current.walked or current.yielded == 0 or not self._wants(current, stepped=stepped, worked=worked):
            return False
        if current.cuttable and not takes_an_end(consumer):
            current.cuttable = False
            self._cuttable = not self._trains(current)
        if not current.cuttable:
            return False
        current.walked = True
        self._look_further(current, iterator)
        if not current.ending:
            return False
        self._cut(current, iterator)
        return True

    def _wants(self, current: Pass, *, stepped: bool, worked: bool) -> bool:
        if self._trains(current):
            return stepped and self.ending
        return worked and self._shown(current)

    def _shown(self, current: Pass) -> bool:
        """Whether a loop without training has nothing new to show."""
        peaks, reserved = current.peaks, current.reserved
        took = self._clock() - current.began
        if not self._steps.count and (len(peaks) < _COLLECTING_BATCHES or took < _COLLECTING_SECONDS):
            return False
        least = _LEAST_BATCHES[min(current.earlier, len(_LEAST_BATCHES) - 1)]
        if len(peaks) < (_GROWING_BATCHES if current.key in self._grew else least):
            return False
        if self._grows(current):
            self._grew.add(current.key)
            return took > _GROWING_SECONDS
        return peaks[-1] < peaks[-2] + current.growth + BLOCK and reserved[-1] <= reserved[-2]

    def _grows(self, current: Pass) -> bool:
        growth, rest = current.growth, current.rest
        if growth and current.key in self._grew:
            return True
        return growth * (1024 if rest is None else rest) > _NEGLIGIBLE

    def _look_further(self, current: Pass, iterator: Any) -> None:
        """Finds the largest batches of the rest of the data, to be given before the end."""
        found = None
        if current.earlier == 0 and hasattr(iterator, "_sampler_iter"):
            found = walk(iterator, self._module, seen=current.sizes, clock=self._clock)
        times = 1
        done = self._steps.count - current.steps_at_start
        if done > 0:
            times = max(1, round(current.yielded / done))
        last: List[Any] = []
        if found is not None:
            current.looked, last = found.looked, found.last
        if found is not None and found.larger:
            # What the script still holds after the loop is of the size that it would be.
            order = [batch for batch in found.larger if batch is not last[0]] + last
            current.fed = [batch for batch in order for _ in range(times)]
        if self._trains(current):
            most = 0
            while not self._course.agree(DATA, len(current.fed) <= most):
                most += 1
            # Another rank has larger batches to run, and all run equally many.
            lacking = most - len(current.fed)
            current.fed += last * lacking
            current.owed = 0 if last else lacking

    def _cut(self, current: Pass, iterator: Any) -> None:
        trains = self._trains(current)
        self.training_cuts += trains
        self._device.note(
            kind="cut",
            where=self._place(),
            batches=current.yielded,
            of=current.length,
            reason=(self._course.pass_reason if trains else None) or "steady",
            training=trains,
            growth=current.growth if not trains and self._grows(current) else 0,
            step=self._steps.count,
        )
        self._tell_sizes(current)
        if isinstance(iterator, types.GeneratorType):
            # At its own end it would let go of its batches, whoever holds the iterator.
            iterator.close()
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
        # What was given of the batches that were looked at counts once.
        looked = current.yielded - current.times_fed + (current.looked.batches if current.looked is not None else 0)
        left = current.looked.left if current.looked is not None else current.rest
        if left == 0:
            kind, rest = "largest_batch_run", "all were looked at"
        else:
            kind = "ragged_batches"
            rest = "the others were not looked at" if left is None else f"{left} were not looked at"
        seen = f"the largest of {looked} that were seen, {largest.words()}, was run, and {rest}"
        self._device.note(
            kind="assumption",
            assumption=kind,
            text=f"batches differ in size; {seen}",
            where=self._place(),
        )


class _Loop:
    """An iterator of a loader's own making, in all but its end."""

    def __init__(self, give: Any, iterator: Any, current: Pass) -> None:
        self._give = give
        self._iterator = iterator
        self._current = current

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._give(next, self._iterator, self._current, sys._getframe(1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _own_length(loader: Any) -> Optional[int]:
    try:
        return len(loader)
    except Exception:  # noqa: BLE001 - loaders may have no length
        return None


def _length(iterator: Any) -> Optional[int]:
    """Number of batches, for data that has an order; asking other data for it would have effects."""
    try:
        return len(iterator._index_sampler) if iterator._sampler_iter is not None and _is_map(iterator) else None
    except Exception:  # noqa: BLE001 - samplers may have no length
        return None


def _is_map(iterator: Any) -> bool:
    return int(iterator._dataset_kind) == 0


def _data_of(loader: Any) -> Any:
    # Never `data or loader`: the data may be a tensor, which has no truth, or be empty.
    data = _watchable(getattr(loader, "dataset", None))
    return loader if data is None else data


def _watchable(value: Any) -> Optional[Any]:
    if value is None:
        return None
    try:
        weakref.ref(value)
    except TypeError:
        return None
    return value
