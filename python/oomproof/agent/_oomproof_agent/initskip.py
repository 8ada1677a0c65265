"""Large parameters are not initialized, so that a model of any size is built on a small machine.

What a parameter holds does not change how much memory training takes, but writing it commits host memory.  A skipped
parameter is not left as it is, since the same program must always give the same figures: its pages are returned to
the system, after which it reads as zeros and occupies nothing.

Only tensors that modules registered as parameters are touched, and only until the first training step; all other
tensors, and small parameters, are computed as ever.  While nothing large is registered, no method of torch.Tensor is
replaced, so that training and compilation see the original ones.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import mmap
import os
import sys
import weakref
from typing import Any, Callable, Dict, List, Optional

__all__ = ["flush", "install"]

_LARGE = 1 << 20
# Random tensors that become parameters later are recognized by where they are made, which is weaker evidence.
_LARGE_UNREGISTERED = 16 << 20
_MADV_DONTNEED = 4

# They give a parameter its value whatever it was.
_SETTERS = ("normal_", "uniform_", "log_normal_", "exponential_", "cauchy_", "random_", "fill_", "zero_")
# They shape a value that was skipped before.
_SHAPERS = ("mul_", "add_", "sub_", "div_", "clamp_", "clip_", "erfinv_", "copysign_")
# Functions of torch.nn.init that do more than call one method of the tensor.
_INITS = ("trunc_normal_", "_no_grad_trunc_normal_", "orthogonal_", "eye_", "dirac_", "sparse_")
_FACTORIES = ("randn", "rand", "normal")

_active: Optional[InitSkip] = None


def install(settings: Dict[str, Any], note: Callable[[Dict[str, Any]], None]) -> None:
    """Called right after torch was imported; does nothing when the user wants real initialization."""
    global _active
    if settings["real_init"] or _active is not None:
        return
    _active = InitSkip(note)
    _active.install()
    atexit.register(flush)


def flush() -> None:
    """Called when the first training step begins: notes what was skipped, and trained parameters are left alone."""
    if _active is not None:
        _active.flush()


class _Pages:
    """The pages that lie wholly inside a stretch of memory, of which nothing else has a part."""

    _libc = ctypes.CDLL(None, use_errno=True)
    _size = mmap.PAGESIZE

    def __init__(self, address: int, length: int) -> None:
        self.start = -(-address // self._size) * self._size
        self.end = max(self.start, (address + length) // self._size * self._size)

    def drop(self) -> bool:
        """Returns the pages to the system: they read as zeros from now on."""
        span = ctypes.c_size_t(self.end - self.start)
        return bool(self._libc.madvise(ctypes.c_void_p(self.start), span, _MADV_DONTNEED) == 0)

    def untouched(self) -> bool:
        """True when no page is in memory or in swap; False also when the system does not tell."""
        try:
            fd = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            at, end = self.start // self._size * 8, self.end // self._size * 8
            while at < end:
                entries = os.pread(fd, min(end - at, 1 << 20), at)
                # The two highest bits of an entry are "present" and "swapped".
                if len(entries) < 8 or max(entries[7::8]) >= 0x40:
                    return False
                at += len(entries)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True


class _Known:
    """A parameter's memory, valid while the tensor that it was seen through still has it."""

    __slots__ = ("announced", "skipped", "tensor")

    def __init__(self, tensor: Any, *, announced: bool = False) -> None:
        self.tensor = weakref.ref(tensor)
        self.skipped = False
        # A parameter made of it will be registered, perhaps when the tensor itself is gone.
        self.announced = announced

    def holds(self, address: int) -> bool:
        seen = self.tensor()
        return seen is not None and _address(seen) == address


def _remember_constructors() -> None:
    """A default device applies to the functions that PyTorch looks up at its first use: the original ones, then."""
    try:
        from torch.utils._device import _device_constructors
    except ImportError:
        return
    _device_constructors()


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


class InitSkip:
    """The replaced functions and what they know."""

    def __init__(self, note: Callable[[Dict[str, Any]], None]) -> None:
        import torch

        self.torch = torch
        self._note = note
        self._known: Dict[int, _Known] = {}
        self._tensors = 0
        self._bytes = 0
        self._restore: List[Callable[[], None]] = []
        self._compiling = getattr(torch.compiler, "is_compiling", lambda: False)

    # -- what is a large parameter --------------------------------------------------------------------------------

    def _large(self, tensor: Any) -> bool:
        # A subclass may refuse to be asked: a lazy module's parameter has no size before the first call.
        return bool(
            type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter)
            and tensor.device.type == "cpu"
            and tensor.layout == self.torch.strided
            and (tensor.is_floating_point() or tensor.is_complex())
            and tensor.numel() * tensor.element_size() >= _LARGE
        )

    def register(self, parameter: Any) -> None:
        """A module took this parameter."""
        if parameter is None or not isinstance(parameter, self.torch.Tensor) or not self._large(parameter):
            return
        address = _address(parameter)
        before = self._known.get(address)
        known = _Known(parameter)
        # Otherwise the memory was freed and given out again, which the system does as it likes.
        if before is not None and (before.announced or before.holds(address)):
            known.skipped = before.skipped and self._pages(parameter).untouched()
        self._known[address] = known
        self._replace_methods()

    def _entry(self, tensor: Any) -> Optional[_Known]:
        address = _address(tensor)
        known = self._known.get(address)
        if known is None:
            return None
        if not known.holds(address):
            del self._known[address]
            return None
        return known

    @staticmethod
    def _pages(tensor: Any) -> _Pages:
        return _Pages(tensor.data_ptr(), tensor.numel() * tensor.element_size())

    def _clear(self, tensor: Any, known: _Known) -> bool:
        """Makes the tensor read as zeros without memory; False when it cannot be done for this tensor."""
        if not tensor.is_contiguous() or tensor.is_shared():
            return False
        pages = self._pages(tensor)
        if pages.start == pages.end or not pages.drop():
            return False
        head = tensor.data_ptr()
        tail = head + tensor.numel() * tensor.element_size()
        ctypes.memset(head, 0, pages.start - head)
        ctypes.memset(pages.end, 0, tail - pages.end)
        if not known.skipped:
            known.skipped = True
            self._tensors += 1
            self._bytes += tail - head
        return True

    def skips(self, tensor: Any, *, sets: bool) -> bool:
        """True when an initialization of this tensor is to be left out, and has been."""
        if not isinstance(tensor, self.torch.Tensor) or not self._large(tensor):
            return False
        known = self._entry(tensor)
        if known is None:
            return False
        if sets:
            return self._clear(tensor, known)
        return known.skipped and self._pages(tensor).untouched()

    # -- replacing ------------------------------------------------------------------------------------------------

    def install(self) -> None:
        module = self.torch.nn.Module
        take = module.register_parameter

        @functools.wraps(take)
        def register_parameter(owner: Any, name: str, param: Any) -> None:
            take(owner, name, param)
            self.register(param)

        module.register_parameter = register_parameter
        self._conversions(module)
        self._copies(self.torch.nn.Parameter)
        self._replace_factories()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        """Replaces an attribute, to be put back by `flush`."""
        own = name in vars(owner)
        before = getattr(owner, name)
        setattr(owner, name, value)

        def restore() -> None:
            if getattr(owner, name, None) is not value:
                return
            if own:
                setattr(owner, name, before)
            else:
                delattr(owner, name)

        self._restore.append(restore)

    def _method(self, name: str, *, sets: bool) -> None:
        original = getattr(self.torch.Tensor, name, None)
        if original is None:
            return
        compiling, skips = self._compiling, self.skips

        @functools.wraps(original)
        def method(tensor: Any, *args: Any, **options: Any) -> Any:
            if not compiling() and skips(tensor, sets=sets):
                return tensor
            return original(tensor, *args, **options)

        self._set(self.torch.Tensor, name, method)

    def _replace_methods(self) -> None:
        if getattr(self.torch.Tensor.normal_, "__wrapped__", None) is not None:
            return
        self._replace_factories()
        for name in _SETTERS:
            self._method(name, sets=True)
        for name in _SHAPERS:
            self._method(name, sets=False)
        for name in _INITS:
            original = getattr(self.torch.nn.init, name, None)
            if original is not None:
                self._init_function(original)

    def _init_function(self, original: Callable[..., Any]) -> None:
        @functools.wraps(original)
        def initialize(tensor: Any, *args: Any, **options: Any) -> Any:
            if self.skips(tensor, sets=True):
                return tensor
            return original(tensor, *args, **options)

        called = original.__name__
        # Modules import these by name.
        for name, module in list(sys.modules.items()):
            if name.startswith("torch.nn") and vars(module).get(called) is original:
                self._set(module, called, initialize)

    def _replace_factories(self) -> None:
        if getattr(self.torch.randn, "__wrapped__", None) is None:
            _remember_constructors()
            for name in _FACTORIES:
                self._factory(name)

    def _factory(self, name: str) -> None:
        original = getattr(self.torch, name)
        compiling = self._compiling

        @functools.wraps(original)
        def make(*args: Any, **options: Any) -> Any:
            if not compiling():
                made = self._parameter_to_be(name, args, options)
                if made is not None:
                    return made
            return original(*args, **options)

        self._set(self.torch, name, make)

    def _parameter_to_be(self, name: str, args: Any, options: Dict[str, Any]) -> Any:
        """`nn.Parameter(torch.randn(...))` in a module's constructor: memory that was never written."""
        size = options.get("size", args[2:3] and args[2] if name == "normal" else args)
        if isinstance(size, tuple) and len(size) == 1 and isinstance(size[0], (tuple, list)):
            size = size[0]
        if not size or not all(isinstance(length, int) for length in size) or options.get("out") is not None:
            return None
        count = 1
        for length in size:
            count *= length
        if count * 2 < _LARGE_UNREGISTERED or not self._in_constructor():
            return None
        keep = {key: options[key] for key in ("dtype", "device", "requires_grad") if key in options}
        if self.torch.device(keep.get("device") or self.torch.get_default_device()).type != "cpu":
            return None
        tensor = self.torch.empty(tuple(size), **keep)
        if not self._large(tensor) or tensor.numel() * tensor.element_size() < _LARGE_UNREGISTERED:
            return None
        known = _Known(tensor, announced=True)
        if not self._clear(tensor, known):
            return None
        self._known[_address(tensor)] = known
        return tensor

    def _in_constructor(self) -> bool:
        frame = sys._getframe(1)
        for _ in range(12):
            if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), self.torch.nn.Module):
                return True
            if frame.f_back is None:
                return False
            frame = frame.f_back
        return False

    # -- copies of what was skipped -------------------------------------------------------------------------------

    def _blank(self, like: Any, dtype: Any) -> Any:
        tensor = self.torch.empty_like(like, dtype=dtype, requires_grad=False)
        known = _Known(tensor, announced=True)
        known.skipped = True  # it is counted already
        if not self._clear(tensor, known):
            return None
        self._known[_address(tensor)] = known
        return tensor

    def _still_blank(self, tensor: Any) -> bool:
        return bool(self._known) and isinstance(tensor, self.torch.Tensor) and self.skips(tensor, sets=False)

    def _conversions(self, module: Any) -> None:
        apply = module._apply

        @functools.wraps(apply)
        def _apply(owner: Any, fn: Any, *args: Any, **options: Any) -> Any:
            if not self._known:
                return apply(owner, fn, *args, **options)
            inner = getattr(fn, "_oomproof_converts", None) or self._converting(fn)
            result = apply(owner, inner, *args, **options)
            for parameter in owner._parameters.values():
                self.register(parameter)
            return result

        module._apply = _apply

    def _converting(self, fn: Any) -> Any:
        """A change of type is made on the host and would write all of it."""

        becomes: Dict[Any, Any] = {}

        @functools.wraps(fn)
        def convert(tensor: Any) -> Any:
            if isinstance(tensor, self.torch.Tensor) and self._large(tensor):
                known = self._entry(tensor)
                if known is not None and known.skipped:
                    dtype = tensor.dtype
                    if dtype not in becomes:
                        becomes[dtype] = fn(self.torch.empty(0, dtype=dtype)).dtype
                    if becomes[dtype] != dtype and self._pages(tensor).untouched():
                        blank = self._blank(tensor, becomes[dtype])
                        if blank is not None:
                            return fn(blank)
            return fn(tensor)

        convert._oomproof_converts = convert  # type: ignore[attr-defined]
        return convert

    def _copies(self, parameter: Any) -> None:
        deepcopy = parameter.__deepcopy__

        @functools.wraps(deepcopy)
        def copy(tensor: Any, memo: Dict[int, Any]) -> Any:
            if id(tensor) not in memo and self._still_blank(tensor):
                blank = self._blank(tensor, tensor.dtype)
                if blank is not None:
                    twin = type(tensor)(blank, tensor.requires_grad)
                    self.register(twin)
                    memo[id(tensor)] = twin
                    return twin
            return deepcopy(tensor, memo)

        parameter.__deepcopy__ = copy

    # -- the end --------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        restore, self._restore = self._restore, []
        for each in restore:
            each()
        self._known = {}
        if self._tensors:
            self._note({"kind": "skipped_init", "tensors": self._tensors, "bytes": self._bytes})
            self._tensors = self._bytes = 0
