"""The virtual device as the agent sees it.

The hot paths (a source line and a module per call) cannot afford a foreign call, so they store into `words`, which
lies in the mapped header of the profile. A forked child shares that mapping with its parent and must not write there:
`detach` swaps it for private memory and turns every call into nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import names

_Words = ctypes.c_uint32 * 4
_Counters = ctypes.c_uint64 * names.N_COUNTERS


class DeviceError(Exception):
    """The virtual device could not be loaded or attached."""


class VersionError(DeviceError):
    """The virtual device is of another version than the agent."""


class Device:
    """Calls of the virtual device; all do nothing before `attach` and after `detach`."""

    def __init__(self) -> None:
        self.words = _Words()
        self._counters = _Counters()
        self._library: Optional[ctypes.CDLL] = None
        self._early: List[Dict[str, Any]] = []

    @property
    def attached(self) -> bool:
        return self._library is not None

    def attach(self, *, library: str, run_json: str) -> None:
        """Loads the device so that everything loaded later finds its symbols, and begins the profile."""
        try:
            loaded = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise DeviceError(f"the virtual device could not be loaded: {error}") from error
        _check_interface(loaded, library)
        _declare(loaded)
        if loaded.oomproof_attach(os.fsencode(run_json)) != 0:
            text = loaded.oomproof_error() or b"the virtual device gave no reason"
            raise DeviceError(text.decode("utf-8", "replace"))
        header = loaded.oomproof_header()
        if not header:
            raise DeviceError("the virtual device has no profile to write into")
        self.words = _Words.from_address(header + names.STATE_AT)
        self._counters = _Counters.from_address(header + names.COUNTERS_AT)
        self._library = loaded
        early, self._early = self._early, []
        for record in early:
            self.note(record)

    def restart(self, *, run_json: str) -> None:
        """In a forked child that has not used the device: goes on as if it had been attached with these settings."""
        if self._library is None or self._library.oomproof_restart(os.fsencode(run_json)) != 0:
            text = (self._library and self._library.oomproof_error()) or b"there is no virtual device"
            raise DeviceError(text.decode("utf-8", "replace"))

    def n_devices(self) -> int:
        """How many devices this process may see."""
        count = ctypes.c_int(0)
        if self._library is None or self._library.cudaGetDeviceCount(ctypes.byref(count)) != 0:
            return 0
        return count.value

    def detach(self) -> None:
        self._library = None
        self.words = _Words()
        self._counters = _Counters()
        self._early = []

    def counter(self, index: int) -> int:
        return self._counters[index]

    def site(self, file: str, line: int, function: str) -> int:
        if self._library is None:
            return 0
        return int(self._library.oomproof_site(_text(file), max(line, 0), _text(function)))

    def module(self, path: str, kind: str) -> int:
        if self._library is None:
            return 0
        return int(self._library.oomproof_module(_text(path), _text(kind)))

    def phase(self, phase: int, step: int) -> None:
        if self._library is not None:
            self._library.oomproof_phase(phase, step)

    def step(self, step: int) -> None:
        if self._library is not None:
            self._library.oomproof_step(step)

    def rank(self, rank: int, world: int) -> None:
        """This process is a rank of so many."""
        if self._library is not None:
            self._library.oomproof_rank(rank, world)

    def agree(self, *, topic: int, moment: int, wanted: bool) -> bool:
        """Whether all ranks want something, and have come to the moment at which all of them do it."""
        if self._library is None:
            return wanted
        return bool(self._library.oomproof_agree(topic, moment, int(wanted)))

    def label(self, role: int, blocks: Sequence[Tuple[int, bytes]]) -> None:
        """Gives live blocks a role; each is any address inside it and the name of the tensor."""
        if self._library is None or not blocks:
            return
        count = len(blocks)
        addresses = (ctypes.c_uint64 * count)(*[address for address, _ in blocks])
        texts = (ctypes.c_char_p * count)(*[name for _, name in blocks])
        self._library.oomproof_label(count, addresses, role, texts)

    def note(self, record: Optional[Dict[str, Any]] = None, **fields: Any) -> None:
        """Writes a note; those before `attach` wait for it."""
        whole = {**(record or {}), **fields}
        if self._library is None:
            self._early.append(whole)
            return
        self._library.oomproof_note(_text(json.dumps(whole, default=str)))

    def ledger(self) -> None:
        """PyTorch's allocator reports nothing: the device's own account stands in."""
        if self._library is not None:
            self._library.oomproof_ledger()

    def close(self) -> None:
        if self._library is not None:
            self._library.oomproof_close()


def _text(text: str) -> bytes:
    # A NUL would end the text early on the other side, and a lone surrogate has no UTF-8.
    return text.replace("\0", " ").encode("utf-8", "replace")


def _check_interface(loaded: ctypes.CDLL, path: str) -> None:
    """Functions of another version have other arguments, and calling them would end the process."""
    try:
        found = int(loaded.oomproof_interface())
    except AttributeError:
        found = 0
    if found != names.INTERFACE:
        raise VersionError(
            f"the virtual device {path} has interface {found}, and the agent calls interface {names.INTERFACE}"
        )


def _declare(library: ctypes.CDLL) -> None:
    u32, u64, text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p
    forms = {
        "oomproof_attach": (ctypes.c_int, [text]),
        "oomproof_restart": (ctypes.c_int, [text]),
        "oomproof_error": (text, []),
        "oomproof_header": (ctypes.c_void_p, []),
        "oomproof_site": (u32, [text, u32, text]),
        "oomproof_module": (u32, [text, text]),
        "oomproof_phase": (None, [u32, u32]),
        "oomproof_step": (None, [u32]),
        "oomproof_rank": (None, [u32, u32]),
        "oomproof_agree": (ctypes.c_int, [u32, u64, ctypes.c_int]),
        "oomproof_label": (None, [u64, ctypes.POINTER(u64), u32, ctypes.POINTER(text)]),
        "oomproof_note": (None, [text]),
        "oomproof_ledger": (None, []),
        "oomproof_close": (None, []),
    }
    for name, (result, arguments) in forms.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise DeviceError(f"the virtual device lacks `{name}`") from error
        function.restype = result
        function.argtypes = arguments
