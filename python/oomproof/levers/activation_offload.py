"""Activations wait in host memory for the backward pass.

The hooks of autograd see every tensor that is kept, parameters among them; those stay, as what is moved is only worth
the way over the bus when nothing else holds it. A tensor that several operators keep is moved once. The copies are made
on the stream that computes, so that no memory is used before it was read.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Set, Tuple

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known, paths
from .patches import Patches

NAME = "activation-offload"
MOMENT = Moment.MODEL

# Smaller ones cost more time than they save memory.
_LEAST_BYTES = 1 << 20


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "modules", "least_bytes")
    for path in paths(parameters, "modules"):
        context.module(path)
    least = parameters.get("least_bytes", _LEAST_BYTES)
    if type(least) is not int or least < 0:
        return f"`least_bytes` is a number of bytes, and not {least!r}"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    patches = Patches()
    offload = _Offload(context, least_bytes=int(parameters.get("least_bytes", _LEAST_BYTES)))
    chosen = paths(parameters, "modules")
    for module in [context.module(path) for path in chosen] if chosen else [context.root()]:
        patches.attribute(module, "forward", offload.around(module.forward))
    return patches.undo


class _Kept:
    """A tensor in host memory."""

    def __init__(self, host: Any, device: Any) -> None:
        self.host = host
        self.device = device


class _Offload:
    def __init__(self, context: Context, *, least_bytes: int) -> None:
        self._context = context
        self._torch = context.torch
        self._least = least_bytes
        self._resident: Set[int] = set()
        # By storage and view; while a weak reference is held, the identity of a storage is not given to another.
        self._known: Dict[Tuple[Any, ...], Tuple[Any, _Kept]] = {}

    def around(self, original: Any) -> Any:
        hooks = self._torch.autograd.graph.saved_tensors_hooks

        @functools.wraps(original)
        def forward(*args: Any, **kwargs: Any) -> Any:
            if not self._torch.is_grad_enabled():
                return original(*args, **kwargs)
            self._resident = self._addresses()
            try:
                with hooks(self._pack, self._unpack):
                    return original(*args, **kwargs)
            finally:
                self._known.clear()

        return forward

    def _addresses(self) -> Set[int]:
        """Memory of parameters and buffers, which stay."""
        root = self._context.root()
        found: List[Any] = [*root.parameters(), *root.buffers()]
        return {entry.untyped_storage().data_ptr() for entry in found}

    def _pack(self, tensor: Any) -> Any:
        size = tensor.numel() * tensor.element_size()
        if size < self._least or type(tensor) is not self._torch.Tensor or tensor.layout is not self._torch.strided:
            return tensor
        storage = tensor.untyped_storage()
        if storage.data_ptr() in self._resident:
            return tensor
        key: Any = (
            storage._cdata,
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
            tensor._version,
        )
        known_one = self._known.get(key)
        if known_one is not None:
            return known_one[1]
        on_gpu = tensor.is_cuda
        host = self._torch.empty_like(tensor, device="cpu", pin_memory=on_gpu)
        host.copy_(tensor.detach(), non_blocking=on_gpu)
        kept = _Kept(host, tensor.device)
        self._known[key] = (self._torch.multiprocessing.reductions.StorageWeakRef(storage), kept)
        return kept

    def _unpack(self, packed: Any) -> Any:
        if not isinstance(packed, _Kept):
            return packed
        # What is on the CPU already is copied too, so that a run there takes the same way.
        return packed.host.to(packed.device, non_blocking=True, copy=True)
