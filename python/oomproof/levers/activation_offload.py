"""Activations wait in host memory for the backward pass.

The hooks of autograd see every tensor that is kept, parameters among them; those stay, as what is moved is only worth
the way over the bus when nothing else holds it. A tensor that several operators keep is moved once.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Set, Tuple

from .context import Context, Moment
from .host_copies import HostCopies, Kept, Use
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
    modules = [context.module(path) for path in chosen] if chosen else [context.root()]
    for module in modules:
        patches.attribute(module, "forward", offload.around(module.forward, is_last=module is modules[-1]))
    return patches.undo


class _Offload:
    def __init__(self, context: Context, *, least_bytes: int) -> None:
        self._context = context
        self._torch = context.torch
        self._least = least_bytes
        self._resident: Set[int] = set()
        # By storage and view; while a weak reference is held, the identity of a storage is not given to another.
        self._known: Dict[Tuple[Any, ...], Tuple[Any, Kept]] = {}
        self._copies = HostCopies(context.torch)

    def around(self, original: Any, *, is_last: bool) -> Any:
        hooks = self._torch.autograd.graph.saved_tensors_hooks

        @functools.wraps(original)
        def forward(*args: Any, **kwargs: Any) -> Any:
            if not self._torch.is_grad_enabled():
                return original(*args, **kwargs)
            self._resident = self._addresses()
            self._copies.begin()
            try:
                with hooks(self._pack, self._unpack):
                    return original(*args, **kwargs)
            finally:
                self._known.clear()
                if is_last:
                    self._copies.end()

        return forward

    def _addresses(self) -> Set[int]:
        """Memory of parameters and buffers, which stay."""
        root = self._context.root()
        found: List[Any] = [*root.parameters(), *root.buffers()]
        return {entry.untyped_storage().data_ptr() for entry in found}

    def _pack(self, tensor: Any) -> Any:
        size = tensor.numel() * tensor.element_size()
        if type(tensor) is not self._torch.Tensor:
            return tensor
        # The operator that gave a tensor may be who keeps it, and neither would be let go of without a backward pass.
        if size < self._least or tensor.layout is not self._torch.strided:
            return tensor.detach()
        storage = tensor.untyped_storage()
        if storage.data_ptr() in self._resident:
            return tensor.detach()
        key: Any = (
            storage._cdata,
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
            tensor._version,
        )
        if key not in self._known:
            kept = self._copies.keep(tensor.detach())
            self._known[key] = (self._torch.multiprocessing.reductions.StorageWeakRef(storage), kept)
        return self._copies.use(self._known[key][1])

    def _unpack(self, packed: Any) -> Any:
        return self._copies.back(packed) if isinstance(packed, Use) else packed
