"""Operators that write into the results of others.

A result that is kept for a second pass must be what it was when it was made. PyTorch finds that it is not only in the
backward pass, so the first forward pass is watched. What is kept stays alive meanwhile, and so its address is its own.
"""

from __future__ import annotations

from typing import Any, List


def writes(kept: List[Any]) -> Any:
    """A context that watches for writes into what the operators `kept` give; its `by` names the first writer."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Writes(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.by: Any = None
            self._addresses: List[int] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            options = kwargs or {}
            if self.by is None and func._schema.is_mutable and any(map(self._is_kept, _written(func, args, options))):
                self.by = str(func.overloadpacket).split(".")[-1]
            result = func(*args, **options)
            if func in kept:
                results = result if isinstance(result, (list, tuple)) else [result]
                tensors = [entry for entry in results if isinstance(entry, torch.Tensor)]
                self._addresses.extend(_address(entry) for entry in tensors)
            return result

        def _is_kept(self, tensor: Any) -> bool:
            return isinstance(tensor, torch.Tensor) and _address(tensor) in self._addresses

    return Writes()


def _written(func: Any, args: Any, kwargs: Any) -> List[Any]:
    found: List[Any] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        found.extend(value if isinstance(value, (list, tuple)) else [value])
    return found


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())
