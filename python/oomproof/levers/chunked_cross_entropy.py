"""Cross entropy of a linear layer's scores, of which only a piece exists at a time.

The gradients of a piece are computed right after its loss, while its scores are there, and only wait for the factor
that the backward pass brings: nothing is computed twice. What autograd sees is a sum that is divided by the number of
labels that count, as it would see a mean written by hand, so that parts of a batch can be weighed by that number.
"""

from __future__ import annotations

import functools
from typing import Any, Tuple

# The script calls functions of this file itself.
OF_LEVER = "chunked-loss"


def loss(
    torch: Any,
    state: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """As `torch.nn.functional.cross_entropy`, of scores that `state` stands for."""
    if size_average is not None or reduce is not None or reduction not in ("mean", "sum"):
        state.refuse("the loss of every row is asked for, and not their mean")
    if state.hidden.dim() != 2 or target.dim() != 1 or target.is_floating_point():
        state.refuse("the loss is over scores of another form than rows of classes, with one class each")
    summed = _function(torch).apply(
        state.hidden, state.weight, state.bias, target, weight, ignore_index, label_smoothing, state
    )
    if reduction == "sum":
        return summed
    counts = target != ignore_index
    if weight is None:
        counted = counts.sum().to(summed.dtype)
    else:
        counted = (weight[target.clamp(min=0)] * counts).sum().to(summed.dtype)
    return summed / counted


@functools.lru_cache(maxsize=1)
def _function(torch: Any) -> Any:
    class ChunkedSum(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, hidden: Any, weight: Any, bias: Any, target: Any, *options: Any) -> Any:
            needed = ctx.needs_input_grad[:3]
            total, gradients = _in_pieces(torch, hidden, weight, bias, target, options, needed)
            ctx.gradients = gradients
            return total

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, factor: Any) -> Any:
            gradients, ctx.gradients = ctx.gradients, None
            if gradients is None:
                raise RuntimeError("a loss in pieces goes through one backward pass; its graph is not kept")
            scaled = [None if entry is None else entry.mul_(factor.to(entry.dtype)) for entry in gradients]
            return (*scaled, None, None, None, None, None)

    return ChunkedSum


def _in_pieces(
    torch: Any, hidden: Any, weight: Any, bias: Any, target: Any, options: Tuple[Any, ...], needed: Tuple[bool, ...]
) -> Tuple[Any, Tuple[Any, Any, Any]]:
    class_weight, ignored, smoothing, state = options
    rows = hidden.shape[0]
    length = max(1, -(-rows // state.chunks))
    kind = state.cast or weight.dtype
    cast_weight, cast_bias = weight.detach().to(kind), None if bias is None else bias.detach().to(kind)
    of_hidden = torch.empty_like(hidden) if needed[0] else None
    of_weight = torch.zeros_like(weight) if needed[1] else None
    of_bias = torch.zeros_like(bias) if bias is not None and needed[2] else None
    total = None
    with torch.autocast(hidden.device.type, enabled=False):
        for start in range(0, rows, length):
            piece = hidden[start : start + length].detach().to(kind)
            scores = torch.nn.functional.linear(piece, cast_weight, cast_bias)
            with torch.enable_grad():
                scores.requires_grad_()
                # Autocast computes losses in 32 bits.
                seen = scores.float() if state.cast is not None else scores.to(state.dtype)
                part = torch.nn.functional.cross_entropy(
                    seen, target[start : start + length], class_weight, ignore_index=ignored, reduction="sum",
                    label_smoothing=smoothing,
                )  # fmt: skip
                del seen
                (gradient,) = torch.autograd.grad(part, scores)
            del scores
            part = part.detach()
            total = part if total is None else total + part
            if of_hidden is not None:
                of_hidden[start : start + length] = gradient @ cast_weight
            if of_weight is not None:
                if gradient.dtype == of_weight.dtype:
                    of_weight.addmm_(gradient.t(), piece)
                else:
                    of_weight += gradient.t() @ piece
            if of_bias is not None:
                of_bias += gradient.sum(0)
    if total is None:
        total = hidden.new_zeros(())
    return total, (of_hidden, of_weight, of_bias)
