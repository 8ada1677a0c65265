"""Buffers that a forward pass changes.

A pass that runs twice changes them twice. Running statistics can be kept from it by copies, as nothing that is computed
in training depends on them; of any other buffer that is not known.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class ChangingBuffers:
    """The buffers of one module."""

    def __init__(self, torch: Any, module: Any, path: str) -> None:
        self._torch = torch
        self._module = module
        self._path = path
        self._norms = [part for part in module.modules() if getattr(part, "running_mean", None) is not None]

    @contextlib.contextmanager
    def frozen_statistics(self) -> Iterator[None]:
        """Statistics that a pass may change, because they are copies."""
        kept: List[Tuple[Dict[str, Any], str, Any]] = []
        with self._torch.no_grad():
            for norm in self._norms:
                for name in _STATISTICS:
                    buffer = norm._buffers.get(name)
                    if buffer is not None and norm.training:
                        kept.append((norm._buffers, name, buffer))
                        norm._buffers[name] = buffer.clone()
        try:
            yield
        finally:
            for buffers, name, buffer in kept:
                buffers[name] = buffer

    def versions(self) -> List[Tuple[str, Any, int]]:
        """All other buffers as they are now."""
        found = []
        for path, part in self._module.named_modules():
            for name, buffer in part._buffers.items():
                if buffer is not None and not (part in self._norms and name in _STATISTICS):
                    whole = ".".join(each for each in (self._path, path, name) if each)
                    found.append((whole, buffer, buffer._version))
        return found

    @staticmethod
    def changed(before: List[Tuple[str, Any, int]]) -> Optional[str]:
        """Why a pass may not run twice, if it changed one of `before`."""
        for path, buffer, version in before:
            if buffer._version != version:
                return f"its buffer `{path}` changes in every forward pass, and would change twice"
        return None
