"""A model's call on a batch as calls on slices of it, and their results as one.

Which tensors are rows of the batch is told by the first of them: those with the same first dimension are cut, and all
others are given whole to every slice. A result without dimensions is a loss over its slice and has to be weighed.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from . import splitting, trees
from .refusal import PlanRefused

Call = Tuple[Tuple[Any, ...], Any]


def rows(torch: Any, call: Call) -> Optional[int]:
    """Rows of the batch that a model is called with; `None` when it is given none."""
    for tensor in trees.tensors(torch, call):
        if tensor.dim() > 0:
            return int(tensor.shape[0])
    return None


def cut(torch: Any, call: Call, sizes: List[int]) -> List[Call]:
    """The call on each slice."""
    total, start, found = sum(sizes), 0, []
    for size in sizes:
        found.append(trees.mapped(torch, call, _narrowed(total, start, size)))
        start += size
    return found


def sizes(total: int, chunks: int) -> List[int]:
    return splitting.sizes(total, chunks)


def joined(torch: Any, results: List[Any], sizes: List[int], weigh: Callable[[List[Any]], Any]) -> Any:
    """The results of all slices as that of the whole; `weigh` makes one loss of those of the slices.

    Raises:
        PlanRefused: A result is no row of the batch.
    """
    columns = zip(*(list(trees.tensors(torch, result)) for result in results))
    whole = iter([_one(torch, list(column), sizes, weigh) for column in columns])
    return trees.mapped(torch, results[0], lambda _: next(whole))


def _one(torch: Any, parts: List[Any], sizes: List[int], weigh: Callable[[List[Any]], Any]) -> Any:
    if all(part.dim() == 0 for part in parts):
        return weigh(parts)
    if [part.dim() and int(part.shape[0]) for part in parts] != sizes:
        raise PlanRefused("the model gives tensors whose first dimension is not that of the batch")
    require_same(parts)
    return torch.cat(parts)


def require_same(parts: List[Any]) -> None:
    """One result for several slices has one shape but for the rows.

    Raises:
        PlanRefused: It has not, as where each sample is compared with all others.
    """
    if len({tuple(part.shape[1:]) for part in parts}) > 1:
        raise PlanRefused("the model gives tensors with two dimensions of the batch, and compares its samples")


def _narrowed(total: int, start: int, size: int) -> Any:
    def narrow(tensor: Any) -> Any:
        return tensor.narrow(0, start, size) if tensor.dim() > 0 and tensor.shape[0] == total else tensor

    return narrow
