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


@dataclass(frozen=True)
class _Leaf:
    """Where a walk from the loss ends: a mean or a sum, and what it is divided by on the way."""

    node: Any
    is_mean: bool
    denominator: Any


def of(loss: Any, *, samples: int, may_read: bool, model: Any = None) -> Reduction:
    """How `loss`, computed from so many samples, is reduced.

    Args:
        loss: A tensor with one element and a graph.
        samples: Rows of the batch that it was computed from.
        may_read: Whether counts may be compared, which waits for the device.
        model: What made the scores, if it is known: classes that nothing in it has are the other samples.

    Raises:
        PlanRefused: It is no mean, or samples are compared with each other.
    """
    found: List[_Leaf] = []
    _walk(loss.grad_fn, found, denominator=None)
    for leaf in found:
        _refuse_comparison(leaf.node, samples=samples, model=model)
    leaves = [_count(leaf, samples=samples) for leaf in found]
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


def is_divided_sum(loss: Any) -> bool:
    """Whether `loss` consists of sums alone, each divided by something.

    Raises:
        PlanRefused: It is nothing of the kind that `of` knows.
    """
    found: List[_Leaf] = []
    _walk(loss.grad_fn, found, denominator=None)
    return all(not leaf.is_mean and leaf.denominator is not None for leaf in found)


def _refuse_comparison(node: Any, *, samples: int, model: Any) -> None:
    scores = getattr(node, "_saved_self", None) if node.name().startswith("NllLoss") else None
    if model is None or scores is None or samples < 2 or tuple(scores.shape) != (samples, samples):
        return
    if not any(samples in parameter.shape for parameter in model.parameters()):
        raise PlanRefused("the loss compares the samples of a batch with each other, and a part of it has fewer")


def _count(leaf: _Leaf, *, samples: int) -> Optional[Count]:
    if not leaf.is_mean:
        return _count_of_sum(leaf.node, leaf.denominator, samples=samples)
    if not leaf.node.name().startswith("NllLoss"):
        return None
    if leaf.denominator is not None:
        _refuse_denominator(leaf.denominator)
    return _nll_count(leaf.node)


def _walk(node: Any, leaves: List[_Leaf], *, denominator: Any) -> None:
    if node is None:
        raise PlanRefused("the loss has no graph")
    name = node.name()
    inputs = [entry for entry, _ in node.next_functions if entry is not None]
    saved = getattr(node, "_saved_reduction", None)
    is_sum = saved == _SUM_OF or _SUM.match(name) is not None
    if is_sum or saved == _MEAN_OF or _MEAN.match(name):
        if inputs and _is_list(inputs[0]):
            _walk_all(inputs[0], leaves, denominator=denominator)
        else:
            leaves.append(_Leaf(node, is_mean=not is_sum, denominator=denominator))
    elif _MANY.match(name) and len(inputs) > 1:
        _walk_all(node, leaves, denominator=denominator)
    elif _LINEAR.match(name) and len(inputs) == 1:
        if name.startswith("DivBackward"):
            divisor = getattr(node, "_saved_other", None)
            # A number of the library's own, as for classes with probabilities, is kept as that.
            is_one = isinstance(divisor, (int, float)) or (divisor is not None and divisor.dim() == 0)
            denominator = divisor if is_one else denominator
        _walk(inputs[0], leaves, denominator=denominator)
    else:
        raise PlanRefused(f"the loss is no mean over samples: `{name}` does not add up over parts of a batch")


def _walk_all(node: Any, leaves: List[_Leaf], *, denominator: Any) -> None:
    for entry, _ in node.next_functions:
        if entry is not None:
            _walk(entry, leaves, denominator=denominator)


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
    if isinstance(divisor, (int, float)):
        return True
    # A Python number is kept as a tensor on the host, of the widest type of its kind.
    return divisor.device.type == "cpu" and str(divisor.dtype) in ("torch.float64", "torch.int64")
