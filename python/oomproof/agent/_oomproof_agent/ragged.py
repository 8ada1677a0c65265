"""The largest batches of the rest of the data, found by making them on the host.

Sorted or padded data has its largest batch anywhere, and the first few say nothing of it. What is made here is thrown
away but for the largest; the script's random numbers are as if nothing had been made. Data whose batches are all alike
costs a handful of them. A batch may be moved to the device in place, so none that the script was given is kept.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import random
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .batches import Size, size

# Batches looked at before the data is taken to be uniform, and the time for that: at least as much as nobody minds.
_PROBES = 16
_UNNOTICED_SECONDS = 0.5
_PROBE_SECONDS = 2.0
_SECONDS = 10.0
_MOST_BATCHES = 1_000_000


class Looked(NamedTuple):
    """How many batches were looked at; `left` is None when the data has no known end."""

    batches: int
    left: Optional[int]


class Walk(NamedTuple):
    """What was found: larger batches than any before, and the one that ends the data, or comes close to it.

    `last` is empty when none could be made.
    """

    larger: List[Any]
    last: List[Any]
    looked: Looked


class _Largest:
    """The batch of most bytes, and the one with the largest single part."""

    def __init__(self, seen: Dict[Size, int]) -> None:
        self.sizes = set(seen)
        self._bytes = max((entry.bytes for entry in seen), default=0)
        self._part = max((_largest_part(entry) for entry in seen), default=0)
        self._by_bytes: Optional[Any] = None
        self._by_part: Optional[Any] = None
        self.last: List[Any] = []
        self.looked = 0

    def take(self, batch: Any, *, last_at: int) -> None:
        found = size(batch)
        self.looked += 1
        if self.looked <= last_at:
            self.last = [batch]
        self.sizes.add(found)
        if found.bytes > self._bytes:
            self._bytes, self._by_bytes = found.bytes, batch
        if _largest_part(found) > self._part:
            self._part, self._by_part = _largest_part(found), batch

    def larger(self) -> List[Any]:
        found = [batch for batch in (self._by_part, self._by_bytes) if batch is not None]
        return found[:1] if len(found) == 2 and found[0] is found[1] else found


def walk(
    iterator: Any,
    module: Any,
    *,
    seen: Dict[Size, int],
    clock: Callable[[], float],
) -> Optional[Walk]:
    """Looks at what `iterator`, of `torch.utils.data.dataloader`, has not given yet; None when that cannot be done."""
    if not seen or any(entry.on_device for entry in seen):
        return None
    largest = _Largest(seen)
    began = clock()
    left: Optional[int] = None
    with _same_random_numbers():
        try:
            makers, known, last_at = _rest(iterator, module)
            left = known
            for make in makers:
                took = clock() - began
                enough = largest.looked >= _PROBES and took > _UNNOTICED_SECONDS
                alike = len(largest.sizes) == 1
                if took > _SECONDS or (alike and (enough or took > _PROBE_SECONDS)):
                    break
                largest.take(make(), last_at=last_at)
                left = None if left is None else left - 1
            else:
                left = 0
        except StopIteration:
            left = 0
        except Exception:  # noqa: BLE001 - data that cannot be made here is data that was not looked at
            pass
    return Walk(largest.larger(), largest.last, Looked(largest.looked, left))


def _rest(iterator: Any, module: Any) -> Tuple[Iterator[Callable[[], Any]], Optional[int], int]:
    """Makers of the batches that were not given yet, how many they are, and which of them makes the last."""
    if int(iterator._dataset_kind) != 0:
        return itertools.repeat(iterator._next_data), None, sys.maxsize
    # What workers have begun is not in the sampler any more; it comes in its order.
    begun = len(getattr(iterator, "_task_info", ()))
    indices = list(itertools.islice(iterator._sampler_iter, _MOST_BATCHES))
    _drop_shorter_end(indices)
    total: Optional[int] = begun + len(indices)
    if len(indices) == _MOST_BATCHES:
        total = None
    fetcher = module._DatasetKind.create_fetcher(
        iterator._dataset_kind,
        iterator._dataset,
        iterator._auto_collation,
        iterator._collate_fn,
        iterator._drop_last,
    )
    # Sorted data has its largest at an end; the order of the others gives a fair sample when time runs out.
    ends, others = indices[-2:], indices[:-2]
    random.Random(0).shuffle(others)
    fetched = (_Fetch(fetcher, index) for index in itertools.chain(ends, others))
    return itertools.chain(fetched, itertools.repeat(iterator._next_data, begun)), total, len(ends) or begun


def _drop_shorter_end(indices: List[Any]) -> None:
    """A last batch that is short for want of data says nothing."""
    lengths = [len(index) for index in indices if isinstance(index, (list, tuple))]
    if len(lengths) == len(indices) > 1 and len(set(lengths[:-1])) == 1 and lengths[-1] < lengths[0]:
        del indices[-1]


class _Fetch:
    def __init__(self, fetcher: Any, index: Any) -> None:
        self._fetcher = fetcher
        self._index = index

    def __call__(self) -> Any:
        return self._fetcher.fetch(self._index)


def take(batches: List[Any], *, iterator: Any, module: Any) -> Any:
    """The next of `batches`, as `iterator` gives them; it is a copy if the same one follows."""
    batch = batches.pop(0)
    if any(batch is other for other in batches):
        try:
            batch = copy.deepcopy(batch)
        except Exception:  # noqa: BLE001 - what cannot be copied is given twice
            pass
    return _pinned(iterator, module, batch)


def _pinned(iterator: Any, module: Any, batch: Any) -> Any:
    if not getattr(iterator, "_pin_memory", False):
        return batch
    return module._utils.pin_memory.pin_memory(batch, getattr(iterator, "_pin_memory_device", None))


def _largest_part(found: Size) -> int:
    largest = 0
    for shape in found.parts:
        volume = 1
        for entry in shape:
            volume *= entry
        largest = max(largest, volume)
    return largest


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    python_state, torch_state = random.getstate(), torch.random.get_rng_state()
    numpy_state = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python_state)
        torch.random.set_rng_state(torch_state)
        if numpy is not None:
            numpy.random.set_state(numpy_state)
