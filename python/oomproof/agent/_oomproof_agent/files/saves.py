"""Files that torch, safetensors and SQLite open outside Python, and checkpoints without their payload.

What the device holds is unknown, so writing it would cost gigabytes and mean nothing.  A redirected checkpoint keeps
its structure, so that the script can load it again in the same run: records of device memory are holes of the right
length, and records of large host memory are written only where they are not zero.
"""

from __future__ import annotations

import functools
import json
import os
import posix
import stat
import struct
import threading
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Tuple

from .overlay import Overlay
from .redirect import Redirect

_LARGE = 1 << 20
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

_SAFETENSORS_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}


def _is_path(name: Any) -> bool:
    return isinstance(name, (str, bytes, os.PathLike))


def _write_sparse(fd: int, offset: int, address: int, length: int) -> None:
    """Writes what is not zero of this host memory; the rest is a hole already."""
    import ctypes

    compare = ctypes.CDLL(None).memcmp
    for start in range(0, length, _LARGE):
        size = min(_LARGE, length - start)
        chunk = (ctypes.c_char * size).from_address(address + start)
        # Memory that equals itself one byte further on is all of one value.
        same = compare(
            ctypes.c_void_p(address + start), ctypes.c_void_p(address + start + 1), ctypes.c_size_t(size - 1)
        )
        if same or chunk[0] != b"\0":
            posix.pwrite(fd, chunk, offset + start)


class Payload:
    """Stands for the bytes of device memory on their way into a file."""

    def __init__(self, size: int) -> None:
        self.size = size

    def nbytes(self) -> int:
        """The size of the record, which torch 2.4 asks after the copy to the host and later ones before it."""
        return self.size


class Saves:
    """Path mapping for libraries that open files themselves."""

    def __init__(self, redirect: Redirect) -> None:
        self.redirect = redirect
        self.overlay: Overlay = redirect.overlay
        self._saving = threading.local()

    def reading(self, name: Any) -> Any:
        """The path a library should read, of the type that was given; unchanged when the view has no such entry."""
        if not _is_path(name) or self.overlay.untouched():
            return name
        try:
            place = self.overlay.find(name)
        except (OSError, ValueError):
            return name
        return place if self.overlay.logical(place) != place else name

    def writing(self, name: Any, flags: int = _NEW_FILE) -> Any:
        """The path a library should write; unchanged where it may write or where it must fail."""
        if not _is_path(name):
            return name
        try:
            place = self.redirect.place_to_write(name, flags)
        except (OSError, ValueError):
            return name
        return place if self.overlay.logical(place) != place else name

    def mapped(self, function: Callable[..., Any], index: int, keyword: str, way: Callable[..., Any]) -> Any:
        """The function with one argument mapped."""

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if len(args) > index:
                args = (*args[:index], way(args[index]), *args[index + 1 :])
            elif keyword in options:
                options[keyword] = way(options[keyword])
            return function(*args, **options)

        return call

    # -- torch ----------------------------------------------------------------------------------------------------

    def serialization(self, module: ModuleType) -> None:
        """`torch.serialization` has been executed: torch._C is there."""
        torch_c = module.torch._C
        if getattr(torch_c.PyTorchFileWriter, "_oomproof", False):
            return
        writer = self._writer(torch_c.PyTorchFileWriter, torch_c.PyTorchFileReader)
        torch_c.PyTorchFileWriter = writer
        torch_c.PyTorchFileReader = self._reader(torch_c.PyTorchFileReader)
        self._save(module, writer)
        self._file_objects(module)
        self._from_file(module.torch.UntypedStorage)

    def _writer(self, original: Any, reader: Any) -> Any:
        saves = self
        can_skip = hasattr(original, "write_record_metadata")

        class PyTorchFileWriter(original):  # type: ignore[misc]
            _oomproof = True

            def __init__(self, name_or_buffer: Any, *args: Any, **options: Any) -> None:
                place = saves.writing(name_or_buffer)
                self._sparse: Optional[str] = None
                self._later: List[Tuple[str, Any, int]] = []
                if can_skip and isinstance(place, str) and saves.overlay.logical(place) != place:
                    self._sparse = place
                super().__init__(place, *args, **options)

            def write_record(self, name: Any, data: Any, size: int) -> None:
                if isinstance(data, Payload):
                    self.write_record_metadata(name, size)
                elif self._sparse is not None and size >= _LARGE and hasattr(data, "data_ptr"):
                    self.write_record_metadata(name, size)
                    self._later.append((name, data, size))
                else:
                    super().write_record(name, data, size)

            def write_end_of_file(self) -> None:
                super().write_end_of_file()
                later, self._later = self._later, []
                if later and self._sparse is not None:
                    offsets = reader(self._sparse)
                    fd = posix.open(self._sparse, os.O_RDWR | os.O_CLOEXEC)
                    try:
                        for name, data, size in later:
                            _write_sparse(fd, offsets.get_record_offset(name), data.data_ptr(), size)
                    finally:
                        posix.close(fd)

        PyTorchFileWriter.__module__ = original.__module__
        return PyTorchFileWriter

    def _reader(self, original: Any) -> Any:
        saves = self

        class PyTorchFileReader(original):  # type: ignore[misc]
            def __init__(self, name_or_buffer: Any, *args: Any, **options: Any) -> None:
                super().__init__(saves.reading(name_or_buffer), *args, **options)

        PyTorchFileReader.__module__ = original.__module__
        return PyTorchFileReader

    def _save(self, module: ModuleType, writer: Any) -> None:
        """Device memory is not brought to the host for a record without payload."""
        saving = self._saving
        save = getattr(module, "_save", None)
        storage = module.torch.UntypedStorage
        if save is None:
            return

        @functools.wraps(save)
        def save_to(obj: Any, zip_file: Any, *args: Any, **options: Any) -> Any:
            before = getattr(saving, "sparse", False)
            saving.sparse = isinstance(zip_file, writer) and zip_file._sparse is not None
            try:
                return save(obj, zip_file, *args, **options)
            finally:
                saving.sparse = before

        to_host = storage.cpu

        @functools.wraps(to_host)
        def cpu(self: Any) -> Any:
            if getattr(saving, "sparse", False) and self.device.type == "cuda" and self.nbytes() >= _LARGE:
                return Payload(self.nbytes())
            return to_host(self)

        module._save = save_to  # type: ignore[attr-defined]
        storage.cpu = cpu

    def _file_objects(self, module: ModuleType) -> None:
        """A file that the script opened and hands to `torch.save` is written by its place, then left at its end."""
        choose = getattr(module, "_open_zipfile_writer", None)
        base = getattr(module, "_open_zipfile_writer_file", None)
        if choose is None or base is None:
            return

        class OfFile(base):  # type: ignore[misc, valid-type]
            def __init__(self, place: str, buffer: Any) -> None:
                self.buffer = buffer
                super().__init__(place)

            def __exit__(self, *args: Any) -> None:
                super().__exit__(*args)
                self.buffer.seek(0, os.SEEK_END)

        @functools.wraps(choose)
        def open_writer(name_or_buffer: Any) -> Any:
            place = None if _is_path(name_or_buffer) else self._fresh_file(name_or_buffer)
            return choose(name_or_buffer) if place is None else OfFile(place, name_or_buffer)

        module._open_zipfile_writer = open_writer  # type: ignore[attr-defined]

    def _fresh_file(self, buffer: Any) -> Optional[str]:
        try:
            fd = buffer.fileno()
            if buffer.tell() != 0 or not buffer.writable() or not buffer.seekable():
                return None
            if not stat.S_ISREG(posix.fstat(fd).st_mode) or posix.fstat(fd).st_size:
                return None
            place = posix.readlink(f"/proc/self/fd/{fd}")
        except (AttributeError, OSError, ValueError):
            return None
        if self.overlay.logical(place) == place or not place.isascii() or not self.overlay.raw_exists(place):
            return None
        return place

    def _from_file(self, owner: Any) -> None:
        """Memory mapped by torch: a shared mapping writes to the file."""
        original = owner.from_file

        def from_file(filename: Any, *args: Any, **options: Any) -> Any:
            shared = args[0] if args else options.get("shared", False)
            place = self.writing(filename, os.O_RDWR | os.O_CREAT) if shared else self.reading(filename)
            return original(place, *args, **options)

        owner.from_file = staticmethod(from_file) if isinstance(owner, type) else from_file

    def torch_loads(self, module: ModuleType) -> None:
        """Functions of torch that hand a path to C++."""
        for name, index, keyword, way in (
            ("load", 0, "f", self.reading),
            ("save", 1, "f", self.writing),
        ):
            original = getattr(module, name, None)
            if original is not None:
                setattr(module, name, self.mapped(original, index, keyword, way))

    def script_module(self, module: ModuleType) -> None:
        """`torch.jit._script` has been executed, and torch's functions were collected before it."""
        self._from_file(module.torch)
        for name in ("RecursiveScriptModule", "ScriptFunction"):
            owner = getattr(module, name, None)
            if owner is not None and hasattr(owner, "save"):
                try:
                    owner.save = self.mapped(owner.save, 1, "f", self.writing)
                except TypeError:
                    continue

    # -- safetensors ----------------------------------------------------------------------------------------------

    def safetensors(self, module: ModuleType) -> None:
        opened = getattr(module, "safe_open", None)
        if opened is not None:
            module.safe_open = self.mapped(opened, 0, "filename", self.reading)  # type: ignore[attr-defined]
        serialize = getattr(module, "serialize_file", None)
        if serialize is not None:
            module.serialize_file = self.mapped(serialize, 1, "filename", self.writing)  # type: ignore[attr-defined]

    def safetensors_of_torch(self, module: ModuleType) -> None:
        original = module.save_file

        @functools.wraps(original)
        def save_file(
            tensors: Dict[str, Any],
            filename: Any,
            metadata: Optional[Dict[str, str]] = None,
            *args: Any,
            **options: Any,
        ) -> None:
            place = self.writing(filename)
            if place is filename or not self._plain_tensors(tensors):
                original(tensors, place, metadata, *args, **options)
            else:
                self._write_safetensors(tensors, place, metadata)

        module.save_file = save_file  # type: ignore[attr-defined]

    @staticmethod
    def _plain_tensors(tensors: Any) -> bool:
        """False leaves the refusal, with its text, or the rare layout to the library."""
        import torch

        if not isinstance(tensors, dict):
            return False
        seen = set()
        for tensor in tensors.values():
            if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
                return False
            known = str(tensor.dtype).rpartition(".")[2] in _SAFETENSORS_TYPES
            if not known or not tensor.is_contiguous() or tensor.device.type not in ("cpu", "cuda"):
                return False
            key = (tensor.device, tensor.untyped_storage().data_ptr())
            if key in seen and tensor.numel():
                return False
            seen.add(key)
        return True

    @staticmethod
    def _write_safetensors(tensors: Dict[str, Any], place: str, metadata: Optional[Dict[str, str]]) -> None:
        header: Dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
        # Larger items first, then by name: an entry starts where its type is aligned.
        order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
        end = 0
        spans = []
        for name in order:
            tensor = tensors[name]
            size = tensor.numel() * tensor.element_size()
            kind = _SAFETENSORS_TYPES[str(tensor.dtype).rpartition(".")[2]]
            header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [end, end + size]}
            spans.append((tensor, end, size))
            end += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        start = 8 + len(text)
        fd = posix.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            posix.pwrite(fd, struct.pack("<Q", len(text)) + text, 0)
            posix.ftruncate(fd, start + end)
            for tensor, offset, size in spans:
                if not size or (tensor.device.type == "cuda" and size >= _LARGE):
                    continue
                host = tensor.detach().cpu()
                _write_sparse(fd, start + offset, host.data_ptr(), size)
        finally:
            posix.close(fd)

    # -- SQLite ---------------------------------------------------------------------------------------------------

    def profiler(self, module: ModuleType) -> None:
        """Traces are written outside Python."""
        kind = module.profile
        kind.export_chrome_trace = self.mapped(kind.export_chrome_trace, 1, "path", self.writing)

    def sqlite(self, module: ModuleType) -> None:
        def database(name: Any) -> Any:
            plain = _is_path(name) and os.fspath(name) not in ("", ":memory:")
            if not plain or os.fsdecode(name).startswith("file:"):
                return name
            return self.writing(name, os.O_RDWR | os.O_CREAT)

        module.connect = self.mapped(module.connect, 0, "database", database)  # type: ignore[attr-defined]
