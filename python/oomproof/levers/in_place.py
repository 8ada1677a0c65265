"""Operators that write into the results of others.

A result that is kept for a second pass must be what it was when it was made. PyTorch finds that it is not only in the
backward pass, so the first forward pass is watched. What is kept stays alive meanwhile, and so its address is its own.
"""

from __future__ import annotations

from typing import Any, Dict, List, Set


def writes(kept: List[Any]) -> Any:
    """A context that watches for writes into what the operators `kept` give; its `into` are those of them."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Writes(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.into: Set[Any] = set()
            self._makers: Dict[int, Any] = {}

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            options = kwargs or {}
            if func._schema.is_mutable:
                for tensor in _written(func, args, options):
                    maker = self._makers.get(_address(tensor)) if isinstance(tensor, torch.Tensor) else None
                    if maker is not None:
                        self.into.add(maker)
            result = func(*args, **options)
            if func in kept:
                for entry in result if isinstance(result, (list, tuple)) else [result]:
                    if isinstance(entry, torch.Tensor):
                        self._makers[_address(entry)] = func
            return result

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
