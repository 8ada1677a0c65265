"""A batch taken apart along its rows.

Nothing says which dimension of a batch counts samples. What the loader says about its batch size decides between the
ways in which batches are usually made: tensors with one first dimension, columns of equal length, or a list of samples.
A batch that fits none of them is not guessed at.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
from typing import Any, Iterator, List, Mapping, Optional, Tuple

from .refusal import PlanRefused


class Reading(enum.Enum):
    """What the rows of a batch are."""

    TENSORS = "first dimension of every tensor"
    COLUMNS = "length of every column"
    SAMPLES = "length of the list"


def read(torch: Any, batch: Any, *, expected: Optional[int]) -> Tuple[Reading, int]:
    """How `batch` is read, and how many rows it has; `expected` is what the loader says.

    Raises:
        PlanRefused: It is not known how.
    """
    found = [(reading, count) for reading in Reading for count in [rows(torch, batch, reading)] if count is not None]
    for reading, count in found:
        if count == expected:
            return reading, count
    if expected is not None:
        # The last batch of an epoch may be smaller.
        found = [(reading, count) for reading, count in found if count < expected]
    if not found:
        raise PlanRefused(f"it is not known which dimension of a batch of type `{_named(batch)}` counts samples")
    return found[0]


def rows(torch: Any, batch: Any, reading: Reading) -> Optional[int]:
    """Number of rows of `batch`, read in this way; `None` when it cannot be."""
    if reading is Reading.SAMPLES:
        return len(batch) if type(batch) in (list, tuple) else None
    if reading is Reading.COLUMNS:
        columns = list(batch.values()) if isinstance(batch, Mapping) else batch
        if not isinstance(columns, (list, tuple)) or not columns:
            return None
        lengths = {_length(torch, column) for column in columns}
        return lengths.pop() if len(lengths) == 1 else None
    try:
        counts = {int(leaf.shape[0]) for leaf in _tensors(torch, batch) if leaf.dim() > 0}
    except PlanRefused:
        return None
    return counts.pop() if len(counts) == 1 else None


def split(torch: Any, batch: Any, reading: Reading, sizes: List[int]) -> List[Any]:
    """`batch` as so many batches of these sizes, in order."""
    total = sum(sizes)
    parts, start = [], 0
    for size in sizes:
        if reading is Reading.SAMPLES:
            parts.append(batch[start : start + size])
        elif reading is Reading.COLUMNS:
            parts.append(_columns(torch, batch, start, size))
        else:
            parts.append(_part(torch, batch, start, size, total))
        start += size
    return parts


def sizes(total: int, chunks: int) -> List[int]:
    """`total` in at most `chunks` parts that differ by one at most, the larger ones first."""
    count = max(1, min(total, chunks))
    return [total // count + (position < total % count) for position in range(count)]


def _columns(torch: Any, batch: Any, start: int, size: int) -> Any:
    def cut(column: Any) -> Any:
        return column[start : start + size]

    if isinstance(batch, Mapping):
        return _with(batch, {key: cut(value) for key, value in batch.items()})
    return _rebuilt(batch, [cut(column) for column in batch])


def _part(torch: Any, value: Any, start: int, size: int, total: int) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.dim() == 0 else value.narrow(0, start, size)
    if hasattr(value, "shape") and hasattr(value, "ndim"):
        return value[start : start + size] if value.ndim and value.shape[0] == total else value
    if isinstance(value, Mapping):
        return _with(value, {key: _part(torch, part, start, size, total) for key, part in value.items()})
    if isinstance(value, (list, tuple)):
        if len(value) == total and not any(True for _ in _tensors(torch, value)):
            return _rebuilt(value, list(value[start : start + size]))
        return _rebuilt(value, [_part(torch, part, start, size, total) for part in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return dataclasses.replace(
            value, **{name: _part(torch, getattr(value, name), start, size, total) for name in names}
        )
    return value


def _tensors(torch: Any, value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _tensors(torch, part)
    elif isinstance(value, torch.nn.utils.rnn.PackedSequence):
        raise PlanRefused("a packed sequence has no rows of its own")
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(torch, part)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors(torch, getattr(value, field.name))
    elif value is not None and not isinstance(value, (str, bytes, int, float, bool)) and not hasattr(value, "shape"):
        raise PlanRefused(f"a batch holds a `{type(value).__name__}`, which is not known")


def _length(torch: Any, column: Any) -> Optional[int]:
    if isinstance(column, torch.Tensor):
        return int(column.shape[0]) if column.dim() else None
    return len(column) if isinstance(column, (list, tuple)) else None


def _with(mapping: Any, parts: Any) -> Any:
    if type(mapping) is dict:
        return parts
    # Mappings of libraries carry more than their items.
    changed = copy.copy(mapping)
    for key, value in parts.items():
        changed[key] = value
    return changed


def _rebuilt(value: Any, parts: List[Any]) -> Any:
    if hasattr(value, "_fields"):
        return type(value)(*parts)
    return type(value)(parts)


def _named(batch: Any) -> str:
    return type(batch).__name__
