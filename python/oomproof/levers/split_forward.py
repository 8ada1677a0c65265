"""The model goes through a batch slice by slice, where no loader can be asked for smaller batches.

The outputs of all slices are computed first and keep nothing; in the backward pass each slice is computed once more,
with its own gradient, and done with before the next. The script sees one call and one backward pass. Random numbers are
drawn again from the state in which they were drawn.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, List, Optional, Tuple

from . import expectations, lazy_scores, loss_reduction, slices, trees
from .changing_buffers import ChangingBuffers
from .context import Context, Moment
from .lever import Undo
from .micro_batch import batch_normalization
from .parameters import Parameters, count, known
from .patches import Patches
from .refusal import PlanRefused

NAME = "split-forward"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "chunks")
    count(parameters, "chunks", least=2)
    for module in context.root().modules():
        if type(module).__name__ in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"):
            return "ranks exchange gradients in every backward pass, and there would be one for each slice"
    return batch_normalization(context, context.root().named_modules())


def apply(context: Context, parameters: Parameters) -> Undo:
    patches = Patches()
    split = _Split(context, chunks=count(parameters, "chunks", least=2))
    patches.attribute(context.root(), "forward", split.forward())
    return patches.undo


class _Split:
    def __init__(self, context: Context, *, chunks: int) -> None:
        self._context = context
        self._torch = context.torch
        self._chunks = chunks
        self._original = context.root().forward
        self._buffers = ChangingBuffers(context.torch, context.root(), "")
        self._tried = False

    def forward(self) -> Any:
        root, torch = self._context.root(), self._torch

        @functools.wraps(self._original)
        def forward(*args: Any, **kwargs: Any) -> Any:
            if not (torch.is_grad_enabled() and root.training):
                return self._original(*args, **kwargs)
            try:
                return self._call((args, kwargs))
            except PlanRefused as error:
                self._context.refuse(error.reason, lever=NAME)
                return self._original(*args, **kwargs)

        return forward

    def _call(self, call: slices.Call) -> Any:
        torch = self._torch
        total = slices.rows(torch, call)
        if total is None:
            raise PlanRefused("the model is called without a batch")
        if any(tensor.requires_grad for tensor in trees.tensors(torch, call)):
            raise PlanRefused("the model's inputs have gradients of their own")
        if not self._tried:
            expectations.check_batch(self._context, total)
        sizes = slices.sizes(total, self._chunks)
        before = None if self._tried else self._buffers.versions()
        run = _Run(self._context, self._original, slices.cut(torch, call, sizes), sizes)
        whole = run.outputs()
        if before is not None:
            self._tried = True
            if len(set(sizes)) == 1 and total > 1:
                self._compare(call, whole, sizes[0], run.scores)
            reason = self._buffers.changed(before)
            if reason is not None:
                raise PlanRefused(reason)
        found = list(trees.tensors(torch, whole))
        live = [tensor for tensor in found if tensor.is_floating_point()]
        anchor = torch.zeros((), device=live[0].device if live else None, requires_grad=True)
        outputs = iter(_function(torch).apply(anchor, run, len(live), *live))
        scores = iter(run.scores)

        def given(tensor: Any) -> Any:
            output, state = next(outputs) if tensor.is_floating_point() else tensor, next(scores)
            return output if state is None else state.changed(torch, hidden=output)

        return trees.mapped(torch, whole, given)

    def _compare(self, call: slices.Call, whole: Any, size: int, scores: List[Optional[lazy_scores.State]]) -> None:
        """Refuses results whose shape depends on the slice, which slices of one size do not show."""
        torch = self._torch
        other = size - 1 if size > 1 else 2
        total = slices.rows(torch, call) or 0
        run = _Run(self._context, self._original, slices.cut(torch, call, [other, total - other])[:1], [other])
        others = trees.tensors(torch, run.once())
        for one, of_other, state in zip(trees.tensors(torch, whole), others, scores):
            # Without gradients there are scores, and no stand-in for them.
            if state is None and one.dim() and of_other.dim():
                slices.require_same([one, of_other])


class _Run:
    """One call of the model, slice by slice."""

    def __init__(self, context: Context, original: Any, calls: List[slices.Call], sizes: List[int]) -> None:
        self._context = context
        self._torch = context.torch
        self._original = original
        self._calls = calls
        self._sizes = sizes
        self._random: List[Any] = []
        self._devices = _devices(context.torch, calls)
        self._modes = _modes(context.torch)
        # What each slice's losses count in all of them.
        self._shares: List[List[Any]] = []
        # For each tensor of the result, what stands behind it where it is scores that do not exist.
        self.scores: List[Optional[lazy_scores.State]] = []

    def outputs(self) -> Any:
        torch = self._torch
        results, counts = [], []
        for call, size in zip(self._calls, self._sizes):
            self._random.append(self._state())
            # The graph of a loss says what it is the mean of, so each slice has one, for as long as it is looked at.
            result = self._original(*call[0], **call[1])
            counts.append([self._count(tensor, size) for tensor in trees.tensors(torch, result) if tensor.dim() == 0])
            self.scores = [lazy_scores.form_of(torch, tensor) for tensor in trees.tensors(torch, result)]
            results.append(trees.mapped(torch, result, lambda tensor: lazy_scores.behind(torch, tensor).detach()))
            del result
        self._shares = self._shared(counts)
        losses = iter(range(len(counts[0]) if counts else 0))
        return slices.joined(torch, results, self._sizes, lambda parts: self._weighed(next(losses), parts))

    def once(self) -> Any:
        """What the model gives for the first slice, with nothing kept or changed by it."""
        before = self._state()
        with self._torch.no_grad():
            result = self._original(*self._calls[0][0], **self._calls[0][1])
        self._restore(before)
        return result

    def backward(self, gradients: List[Any]) -> None:
        """Computes each slice again, with its part of the gradients."""
        torch = self._torch
        now, start = self._state(), 0
        for position, (call, size) in enumerate(zip(self._calls, self._sizes)):
            self._restore(self._random[position])
            with torch.enable_grad(), self._mode():
                result = self._original(*call[0], **call[1])
            given = [lazy_scores.behind(torch, tensor) for tensor in trees.tensors(torch, result)]
            outputs = [tensor for tensor in given if tensor.is_floating_point()]
            roots, factors, loss = [], [], 0
            for output, gradient in zip(outputs, gradients):
                share = None
                if output.dim() == 0:
                    share, loss = self._shares[position][loss], loss + 1
                if gradient is None or not output.requires_grad:
                    continue
                roots.append(output)
                factors.append(gradient.narrow(0, start, size) if share is None else gradient * share)
            start += size
            del result, given, outputs
            if roots:
                torch.autograd.backward(roots, factors)
        self._restore(now)

    def _count(self, loss: Any, size: int) -> Any:
        if not loss.requires_grad:
            return float(size)
        reduction = loss_reduction.of(
            loss, samples=size, may_read=self._context.values_are_known, model=self._context.model
        )
        return float(size) if reduction.count is None else reduction.count.total.detach().clone()

    @staticmethod
    def _shared(counts: List[List[Any]]) -> List[List[Any]]:
        totals = [sum(column[1:], column[0]) for column in zip(*counts)]
        return [[count / total for count, total in zip(each, totals)] for each in counts]

    def _weighed(self, position: int, parts: List[Any]) -> Any:
        weighed = [part * share[position] for part, share in zip(parts, self._shares)]
        return sum(weighed[1:], weighed[0])

    def _state(self) -> Tuple[Any, List[Any]]:
        cuda = self._torch.cuda
        return self._torch.get_rng_state(), [cuda.get_rng_state(device) for device in self._devices]

    def _restore(self, state: Tuple[Any, List[Any]]) -> None:
        self._torch.set_rng_state(state[0])
        for device, each in zip(self._devices, state[1]):
            self._torch.cuda.set_rng_state(each, device)

    @contextlib.contextmanager
    def _mode(self) -> Any:
        with contextlib.ExitStack() as stack:
            for device, enabled, dtype in self._modes:
                stack.enter_context(self._torch.autocast(device, dtype=dtype, enabled=enabled))
            yield


def _modes(torch: Any) -> List[Tuple[str, bool, Any]]:
    return [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cuda", "cpu")]


def _devices(torch: Any, calls: List[slices.Call]) -> List[Any]:
    return list({tensor.device: None for tensor in trees.tensors(torch, calls[0]) if tensor.is_cuda})


@functools.lru_cache(maxsize=1)
def _function(torch: Any) -> Any:
    class SplitForward(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, _anchor: Any, run: Any, count: int, *outputs: Any) -> Any:
            ctx.run = run
            ctx.count = count
            ctx.set_materialize_grads(False)
            return tuple(output.detach() for output in outputs)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *gradients: Any) -> Any:
            run, ctx.run = ctx.run, None
            if run is None:
                raise RuntimeError("a model that is called in slices goes through one backward pass")
            run.backward(list(gradients))
            return (None, None, None, *[None] * ctx.count)

    return SplitForward
