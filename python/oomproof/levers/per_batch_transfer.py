"""A data set that lies on the device whole stays on the host, and its batches go over one by one.

It is moved when its loader is first asked for a batch. Memory is only freed where nothing else of the script holds the
tensors.
"""

from __future__ import annotations

import functools
from typing import Any, Optional

from . import trees
from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "per-batch-transfer"
MOMENT = Moment.START

_HOME = "_oomproof_device"


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters)
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    import torch.utils.data as data

    torch, patches = context.torch, Patches()

    def make(function: Any) -> Any:
        @functools.wraps(function)
        def iterate(loader: Any) -> Any:
            dataset = getattr(loader, "dataset", None)
            _move(torch, patches, dataset)
            device = getattr(dataset, _HOME, None)
            iterator = function(loader)
            return iterator if device is None else _Transferring(torch, iterator, device)

        return iterate

    patches.wrap(data.DataLoader, "__iter__", make)
    return patches.undo


def _move(torch: Any, patches: Patches, dataset: Any) -> None:
    tensors = getattr(dataset, "tensors", None)
    if not isinstance(tensors, tuple) or not any(getattr(tensor, "is_cuda", False) for tensor in tensors):
        return
    device = next(tensor.device for tensor in tensors if tensor.is_cuda)
    on_device = [tensor.is_cuda for tensor in tensors]
    patches.attribute(dataset, _HOME, device)
    # What undoing would need must not be kept: that is the memory in question.
    dataset.tensors = tuple(tensor.cpu() for tensor in tensors)

    def back() -> None:
        dataset.tensors = tuple(
            tensor.to(device) if was_there else tensor for tensor, was_there in zip(dataset.tensors, on_device)
        )

    patches.later(back)


class _Transferring:
    """An iterator whose batches go to a device."""

    def __init__(self, torch: Any, iterator: Any, device: Any) -> None:
        self._torch = torch
        self._iterator = iterator
        self._device = device

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return trees.mapped(self._torch, next(self._iterator), lambda tensor: tensor.to(self._device))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)
