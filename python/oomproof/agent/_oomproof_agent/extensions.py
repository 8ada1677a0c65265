"""Extensions that need more of CUDA than there is.

A compiled module or library whose functions the stand-ins lack does not load, and many packages answer that by doing
without it: the figures would then be those of another program, with nothing said. The loader's message names one
function, so the file itself is read for the others. What loads binds all of its functions at once and costs nothing
here, unless the script asked for lazy binding, under which the first call would end the process.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import re
import struct
import sys
from importlib.machinery import ExtensionFileLoader
from typing import Any, Callable, Iterator, List, Optional, Set, Tuple

from .device import Device

_FUNCTION = re.compile(
    rb"(?:(?:__)?cuda[A-Z]|cu[A-Z]|cu(?:blas|dnn|fft|file|pti|rand|solver|sparse|tensor)[A-Z]?|nccl[A-Z]|nvrtc[A-Z]"
    rb"|nvml[A-Z]|npp[A-Za-z]|nvjpeg|nvJitLink|nvshmem)\w*"
)
_UNDEFINED = re.compile(r"(?:(\S+): )?undefined symbol: (\w+)")
_NO_LIBRARY = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")
_CLOSED = re.compile(r"lib(?:cu(?:da|blas|dnn|fft|file|pti|rand|solver|sparse|tensor)|nccl|nv|npp)")

_DYNAMIC_SYMBOLS = 11
_WEAK = 2
# Beyond these sizes a file is damaged or made to be expensive.
_MOST_SECTIONS = 4096
_MOST_TABLE_BYTES = 1 << 26


class Extensions:
    """What could not be loaded for want of CUDA functions, told once for each library."""

    def __init__(self, device: Device, *, place: Callable[[], Optional[str]]) -> None:
        self._device = device
        self._place = place
        self._told: Set[str] = set()

    def watch(self) -> None:
        """Watches imports of compiled modules, and whatever `ctypes` opens."""
        ExtensionFileLoader.create_module = self._wrap_import(  # type: ignore[method-assign]
            ExtensionFileLoader.create_module
        )
        opened = ctypes._dlopen  # type: ignore[attr-defined]

        def dlopen(name: Any, *rest: Any) -> Any:
            try:
                return opened(name, *rest)
            except OSError as error:
                self.failed(str(name), str(error))
                raise

        ctypes._dlopen = dlopen  # type: ignore[attr-defined]

    def _wrap_import(self, create: Any) -> Any:
        @functools.wraps(create)
        def create_module(loader: Any, spec: Any) -> Any:
            try:
                module = create(loader, spec)
            except ImportError as error:
                self.failed(str(spec.origin), str(error))
                raise
            if not sys.getdlopenflags() & os.RTLD_NOW:
                self._tell(str(spec.origin), functions=missing_functions(str(spec.origin)), libraries=[])
            return module

        return create_module

    def failed(self, path: str, message: str) -> None:
        """`path` did not load, and the loader said why."""
        undefined, absent = _UNDEFINED.search(message), _NO_LIBRARY.search(message)
        if undefined is not None and _FUNCTION.fullmatch(undefined[2].encode()):
            # A library that `path` needs may be the one at fault.
            culprit = undefined[1] or path
            self._tell(path, functions=sorted({undefined[2], *missing_functions(culprit)}), libraries=[])
        elif absent is not None and _CLOSED.match(absent[1]) and os.path.basename(path) != absent[1]:
            self._tell(path, functions=[], libraries=[absent[1]])

    def _tell(self, path: str, *, functions: List[str], libraries: List[str]) -> None:
        if path in self._told or not (functions or libraries):
            return
        self._told.add(path)
        self._device.note(
            kind="missing_functions",
            library=os.path.basename(path),
            functions=functions,
            libraries=libraries,
            where=self._place(),
        )


def missing_functions(path: str) -> List[str]:
    """CUDA functions that a library needs and this process lacks; none for what cannot be read."""
    try:
        process = ctypes.CDLL(None)
        return sorted(name for name in set(undefined_functions(path)) if not hasattr(process, name))
    except (OSError, ValueError, struct.error):
        return []


def undefined_functions(path: str) -> Iterator[str]:
    """CUDA functions that a library needs, in no order; weak ones are not needed."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        if image[:6] != b"\x7fELF\x02\x01":
            return
        sections = _sections(image)
        for kind, at, size, names in sections:
            if kind != _DYNAMIC_SYMBOLS or names >= len(sections):
                continue
            _, names_at, names_size, _ = sections[names]
            if max(size, names_size) > _MOST_TABLE_BYTES:
                continue
            text = image[names_at : names_at + names_size]
            symbols = image[at : at + size - size % 24]
            for name, info, _other, section, _value, _size in struct.iter_unpack("<IBBHQQ", symbols):
                found = _FUNCTION.match(text, name) if section == 0 and info >> 4 != _WEAK else None
                if found is not None and text[found.end() : found.end() + 1] == b"\0":
                    yield found[0].decode()


def _sections(image: mmap.mmap) -> List[Tuple[int, int, int, int]]:
    """Type, place, size and linked section of each section."""
    (at,) = struct.unpack_from("<Q", image, 40)
    entry, count = struct.unpack_from("<HH", image, 58)
    if entry != 64 or count > _MOST_SECTIONS or at + entry * count > len(image):
        return []
    found = []
    for _name, kind, _flags, _address, place, size, link, _info, _align, _each in struct.iter_unpack(
        "<IIQQQQIIQQ", image[at : at + entry * count]
    ):
        found.append((kind, place, size, link))
    return found
