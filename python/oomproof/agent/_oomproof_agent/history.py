"""PyTorch's own memory history, recorded when the user wants a snapshot of the run.

The profile sees what the virtual device sees. A replay under other settings also needs what was requested before
rounding, streams and pools, and those are in PyTorch's history alone. Recording it changes nothing of what is
allocated.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any, Dict, List, Optional

_OWN = os.path.dirname(os.path.abspath(__file__))
# As `torch.cuda.memory._dump_snapshot` writes, which all readers know.
_PROTOCOL = 4


class History:
    """Records from the first allocation on, and writes once, at the end."""

    def __init__(self, *, folder: str) -> None:
        self.folder = folder
        self._torch: Optional[Any] = None

    def watch(self, torch: Any) -> None:
        """Begins with the first use of the device, which PyTorch passes before it allocates anything."""
        self._torch = torch
        torch.cuda._lazy_call(lambda: torch.cuda.memory._record_memory_history(stacks="python"))

    def forget(self) -> None:
        """In a forked child: the snapshot is that of its parent."""
        self._torch = None

    def write(self) -> None:
        torch, self._torch = self._torch, None
        if torch is None or not torch.cuda.is_initialized():
            return
        try:
            snapshot = torch.cuda.memory._snapshot()
            for holder in _with_frames(snapshot):
                holder["frames"] = [frame for frame in holder["frames"] if not _is_own(frame)]
            path = os.path.join(self.folder, f"{os.getpid()}.snapshot")
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            with os.fdopen(handle, "wb") as file:
                pickle.dump(snapshot, file, protocol=_PROTOCOL)
        except Exception as error:  # noqa: BLE001 - the verdict is worth more than the snapshot
            sys.stderr.write(f"oomproof: the snapshot could not be written: {type(error).__name__}: {error}\n")


def _is_own(frame: Dict[str, Any]) -> bool:
    return str(frame.get("filename", "")).startswith(_OWN)


def _with_frames(snapshot: Dict[str, Any]) -> List[Dict[str, Any]]:
    holders: List[Dict[str, Any]] = []
    for segment in snapshot.get("segments", ()):
        holders.append(segment)
        holders += segment.get("blocks", ())
    for trace in snapshot.get("device_traces", ()):
        holders += trace
    return [holder for holder in holders if holder.get("frames")]
