"""How large a batch is, on the host and without knowing what it is made of.

Collators give tensors in tuples, mappings and objects of their own; a difference in any shape, or in the length of a
text that is turned into tokens later, makes batches unequal.
"""

from __future__ import annotations

from typing import Any, Iterator, List, NamedTuple, Tuple

# Parts that are looked at in one batch, and how deep: one may hold a thousand boxes of an image.
_MOST_PARTS = 4096
_DEEPEST = 6


class Size(NamedTuple):
    """Equal for two batches exactly when their parts have equal shapes."""

    parts: Tuple[Tuple[int, ...], ...]
    bytes: int
    on_device: bool

    def words(self) -> str:
        """The shapes of the larger parts, such as `8x512, 8x512`."""
        shapes: List[str] = []
        for shape in sorted(self.parts, key=_volume, reverse=True):
            text = "x".join(map(str, shape))
            if shape and text not in shapes:
                shapes.append(text)
        return ", ".join(shapes[:2]) or "no tensors"


def size(batch: Any) -> Size:
    parts: List[Tuple[int, ...]] = []
    total = 0
    on_device = False
    for shape, width, is_on_device in _parts(batch, 0):
        parts.append(shape)
        total += _volume(shape) * width
        on_device = on_device or is_on_device
        if len(parts) >= _MOST_PARTS:
            break
    return Size(tuple(parts), total, on_device)


def _parts(value: Any, depth: int) -> Iterator[Tuple[Tuple[int, ...], int, bool]]:
    if depth > _DEEPEST or value is None or isinstance(value, (bool, int, float, complex)):
        return
    if isinstance(value, (str, bytes)):
        yield (len(value),), 1, False
        return
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(entry, int) for entry in shape):
        yield tuple(int(entry) for entry in shape), _width(value), bool(getattr(value, "is_cuda", False))
        return
    if hasattr(value, "items") and callable(value.items):
        for _, entry in sorted(value.items(), key=lambda pair: str(pair[0])):
            yield from _parts(entry, depth + 1)
        return
    if isinstance(value, (list, tuple)):
        for entry in value:
            yield from _parts(entry, depth + 1)
        return
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        for _, entry in sorted(held.items()):
            yield from _parts(entry, depth + 1)


def _width(value: Any) -> int:
    width = getattr(value, "itemsize", None)
    if isinstance(width, int):
        return width
    dtype = getattr(value, "dtype", None)
    width = getattr(dtype, "itemsize", 1)
    return width if isinstance(width, int) else 1


def _volume(shape: Tuple[int, ...]) -> int:
    volume = 1
    for entry in shape:
        volume *= entry
    return volume
