"""What a loss is the mean of, read off its graph.

A loss over a part of a batch has to be weighed so that the parts add up to the loss over the whole. A mean over samples
is weighed by its samples, and a mean over labels that counts only some of them by that count, which the graph has kept.
Anything else, such as a sum, the root of a mean or a product of two means, does not add up at all and is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, List, Optional

from .refusal import PlanRefused

# With one input that has a gradient these are linear in it.
_LINEAR = re.compile(
    r"^(Add|Sub|Rsub|Neg|Mul|Div|ToCopy|Clone|Alias|View|UnsafeView|ReshapeAlias|Squeeze|Unsqueeze|Expand)Backward\d*$"
)
_MANY = re.compile(r"^(Add|Sub|Stack|Cat)Backward\d*$")
_SUM = re.compile(r"^(Sum|ChunkedSum)Backward\d*$")
_MEAN = re.compile(r"^MeanBackward\d*$")
_NONE, _MEAN_OF, _SUM_OF = 0, 1, 2


@dataclass(frozen=True)
class Count:
    """What a mean divides by: a tensor without dimensions on the loss's device, and whether it is that of all rows."""

    total: Any
    rows: Optional[int] = None


@dataclass(frozen=True)
class Reduction:
    """A mean over samples, or over what `count` counts."""

    count: Optional[Count] = None


def of(loss: Any, *, samples: int, may_read: bool) -> Reduction:
    """How `loss`, computed from so many samples, is reduced.

    Args:
        loss: A tensor with one element and a graph.
        samples: Rows of the batch that it was computed from.
        may_read: Whether counts may be compared, which waits for the device.

    Raises:
        PlanRefused: It is no mean.
    """
    leaves: List[Optional[Count]] = []
    _walk(loss.grad_fn, leaves, denominator=None, samples=samples)
    counts = [leaf for leaf in leaves if leaf is not None]
    if not counts:
        return Reduction()
    if len(leaves) == 1 or not may_read:
        return Reduction(counts[0])
    if all(count.rows is not None and float(count.total) == count.rows for count in counts):
        return Reduction()
    if len(counts) == len(leaves) and len({float(count.total) for count in counts}) == 1:
        return Reduction(counts[0])
    raise PlanRefused("the loss is a sum of means over different numbers of labels")


def _walk(node: Any, leaves: List[Optional[Count]], *, denominator: Any, samples: int) -> None:
    if node is None:
        raise PlanRefused("the loss has no graph")
    name = node.name()
    inputs = [entry for entry, _ in node.next_functions if entry is not None]
    saved = getattr(node, "_saved_reduction", None)
    if saved == _MEAN_OF:
        if denominator is not None and name.startswith("NllLoss"):
            _refuse_denominator(denominator)
        leaves.append(_nll_count(node) if name.startswith("NllLoss") else None)
    elif saved == _SUM_OF or _SUM.match(name):
        if inputs and _MANY.match(inputs[0].name()) and _is_list(inputs[0]):
            _walk_all(inputs[0], leaves, denominator=denominator, samples=samples)
        else:
            leaves.append(_count_of_sum(node, denominator, samples=samples))
    elif _MEAN.match(name):
        if inputs and _is_list(inputs[0]):
            _walk_all(inputs[0], leaves, denominator=denominator, samples=samples)
        else:
            leaves.append(None)
    elif _MANY.match(name) and len(inputs) > 1:
        _walk_all(node, leaves, denominator=denominator, samples=samples)
    elif _LINEAR.match(name) and len(inputs) == 1:
        if name.startswith("DivBackward"):
            divisor = getattr(node, "_saved_other", None)
            denominator = divisor if divisor is not None and divisor.dim() == 0 else denominator
        _walk(inputs[0], leaves, denominator=denominator, samples=samples)
    else:
        raise PlanRefused(f"the loss is no mean over samples: `{name}` does not add up over parts of a batch")


def _walk_all(node: Any, leaves: List[Optional[Count]], *, denominator: Any, samples: int) -> None:
    for entry, _ in node.next_functions:
        if entry is not None:
            _walk(entry, leaves, denominator=denominator, samples=samples)


def _is_list(node: Any) -> bool:
    """Whether a tensor is a list of losses, and not a loss per sample."""
    return str(node.name()).startswith("StackBackward")


def _nll_count(node: Any) -> Count:
    rows = None if node._saved_weight is not None else int(node._saved_target.numel())
    return Count(node._saved_total_weight, rows)


def _refuse_denominator(denominator: Any) -> None:
    if not _is_number(denominator):
        raise PlanRefused("the loss is a mean that is divided by a count once more")


def _count_of_sum(node: Any, denominator: Any, *, samples: int) -> Optional[Count]:
    if denominator is None:
        raise PlanRefused("the loss is a sum and no mean")
    if not _is_number(denominator):
        return Count(denominator)
    shape = [int(size) for size in getattr(node, "_saved_self_sym_sizes", ())]
    if not shape and hasattr(node, "_saved_target"):
        shape = [int(size) for size in node._saved_target.shape]
    elements = 1
    wanted = {samples}
    for size in shape:
        elements *= size
        wanted.add(elements)
    if float(denominator) not in wanted:
        raise PlanRefused("the loss is a sum that is divided by a number which may not be that of its samples")
    return None


def _is_number(divisor: Any) -> bool:
    # A Python number is kept as a tensor on the host, of the widest type of its kind.
    return divisor.device.type == "cpu" and str(divisor.dtype) in ("torch.float64", "torch.int64")
