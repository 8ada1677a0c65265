"""Chosen modules keep only their inputs, and compute their activations again in the backward pass.

What runs twice must not count twice. Random numbers are drawn again from the saved state, running statistics of
normalization are copied for the second pass, and a module that changes other buffers of its own is refused. A cache of
keys and values would be appended to twice, so an empty one is left out, as Hugging Face's own checkpointing does.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from . import in_place, random_states
from .changing_buffers import ChangingBuffers
from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known, one_of, paths
from .patches import Patches
from .refusal import PlanRefused

NAME = "activation-checkpointing"
MOMENT = Moment.MODEL

_POLICIES = ("full", "keep-matmul")
_CACHES = ("past_key_values", "past_key_value", "layer_past")


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "modules", "policy")
    import torch.utils.checkpoint as checkpoints

    policy = one_of(parameters, "policy", _POLICIES, default="full")
    if policy != "full" and not hasattr(checkpoints, "create_selective_checkpoint_contexts"):
        return f"`{policy}` needs torch 2.5"
    chosen = paths(parameters, "modules")
    if not chosen:
        return "no module is named"
    for path in chosen:
        module = context.module(path)
        if module is context.root():
            return "the whole model is one checkpoint then, which saves nothing"
        if isinstance(module, context.torch.jit.ScriptModule):
            return f"module `{path}` is compiled by TorchScript"
        if getattr(module, "gradient_checkpointing", False) and module.training:
            return f"module `{path}` is checkpointed by the script already"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    patches = Patches()
    policy = one_of(parameters, "policy", _POLICIES, default="full")
    for path in paths(parameters, "modules"):
        checkpointed = _Checkpointed(context, path, policy=policy)
        patches.attribute(checkpointed.module, "forward", checkpointed.forward())
    return patches.undo


class _Checkpointed:
    """One module."""

    def __init__(self, context: Context, path: str, *, policy: str) -> None:
        self._context = context
        self._torch = context.torch
        self._path = path
        self._policy = policy
        self.module = context.module(path)
        self._buffers = ChangingBuffers(self._torch, self.module, path)
        self._tried = False
        # Watched in the first pass, if results are kept.
        self._writes: Optional[Any] = None
        # Operators whose results are changed in place, and so are no use to a second pass.
        self._left_out: Set[Any] = set()

    def forward(self) -> Any:
        from torch.utils.checkpoint import checkpoint

        original = self.module.forward

        @functools.wraps(original)
        def forward(*args: Any, **kwargs: Any) -> Any:
            if not self._torch.is_grad_enabled():
                return original(*args, **kwargs)
            args, kwargs = self._without_cache(args, kwargs)
            again = functools.partial(checkpoint, original, use_reentrant=False, context_fn=self._contexts)
            return again(*args, **kwargs) if self._tried else self._first(again, args, kwargs)

        return forward

    def _first(self, again: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        before, random = self._buffers.versions(), random_states.read(self._torch)
        result = again(*args, **kwargs)
        self._tried = True
        reason = self._buffers.changed(before)
        if reason is not None:
            self._context.refuse(reason, lever=NAME)
        if self._writes is not None and self._writes.into:
            # What it kept is not what it was: once more, without the operators whose results are written into.
            self._left_out = self._writes.into
            del result
            random_states.restore(self._torch, random)
            with self._buffers.frozen_statistics():
                result = again(*args, **kwargs)
        self._writes = None
        return result

    def _contexts(self) -> Tuple[Any, Any]:
        first: Any = contextlib.nullcontext()
        second: Any = self._buffers.frozen_statistics()
        if self._policy == "keep-matmul":
            from torch.utils.checkpoint import create_selective_checkpoint_contexts

            products = [each for each in _matrix_products(self._torch) if each not in self._left_out]
            keep, reuse = create_selective_checkpoint_contexts(products)
            first, second = keep, _both(second, reuse)
            if not self._tried:
                self._writes = in_place.writes(products)
                first = _both(first, self._writes)
        return first, second

    def _without_cache(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        for name in _CACHES:
            cache = kwargs.get(name)
            if cache is None:
                continue
            if _length(cache):
                reason = f"module `{self._path}` is given a cache of keys and values that is not empty"
                self._context.refuse(reason, lever=NAME)
            kwargs = {**kwargs, name: None}
            if "use_cache" in kwargs:
                kwargs["use_cache"] = False
        if any(hasattr(value, "get_seq_length") for value in args):
            args = tuple(None if hasattr(value, "get_seq_length") and not _length(value) else value for value in args)
        return args, kwargs


@contextlib.contextmanager
def _both(outer: Any, inner: Any) -> Iterator[None]:
    with outer, inner:
        yield


def _length(cache: Any) -> int:
    measure = getattr(cache, "get_seq_length", None)
    if measure is None:
        return len(cache) if hasattr(cache, "__len__") else 0
    return int(measure())


def _matrix_products(torch: Any) -> List[Any]:
    """Operators whose results are kept: what they cost is arithmetic, and what they leave is small beside the rest."""
    aten = torch.ops.aten
    names = (
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
        "linear",
        "convolution",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    )
    found = [getattr(getattr(aten, name, None), "default", None) for name in names]
    kept = [operator for operator in found if operator is not None]
    if not kept:
        raise PlanRefused("this torch names its matrix products differently")
    return kept
