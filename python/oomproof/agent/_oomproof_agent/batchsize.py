"""The batch size of the script's loaders: told, and on request another one.

A run at another batch size must differ in nothing else, so only a number is replaced where a loader is made: that of
the first loader, and of those that have the same one. A loader with batches of its own making is left alone.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

# Loaders beyond these have the same size as one of them, or are not what is asked about.
_MOST_NOTES = 8


class BatchSize:
    def __init__(self, *, wanted: Optional[int], note: Callable[..., None], place: Callable[[], Optional[str]]) -> None:
        self._wanted = wanted
        self._note = note
        self._place = place
        self._first: Optional[int] = None
        self._told = 0

    def watch(self, module: Any) -> None:
        """`module` is `torch.utils.data.dataloader`."""
        loader = module.DataLoader
        loader.__init__ = self._wrap(loader.__init__)

    def _wrap(self, function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(loader: Any, dataset: Any, *args: Any, **options: Any) -> None:
            size = args[0] if args else options.get("batch_size", 1)
            if options.get("batch_sampler") is None and len(args) < 4 and type(size) is int:
                if self._first is None:
                    self._first = size
                if size == self._first:
                    self._tell(size, dataset)
                    if self._wanted is not None:
                        args = args[1:] if args else args
                        options.pop("batch_size", None)
                        function(loader, dataset, self._wanted, *args, **options)
                        return
            function(loader, dataset, *args, **options)

        return wrapped

    def _tell(self, size: int, dataset: Any) -> None:
        if self._told >= _MOST_NOTES:
            return
        self._told += 1
        self._note(
            kind="batch_size", size=size, replaced_by=self._wanted, samples=_length(dataset), where=self._place()
        )


def _length(dataset: Any) -> Optional[int]:
    try:
        return len(dataset)
    except Exception:  # noqa: BLE001 - a stream of samples has no length
        return None
