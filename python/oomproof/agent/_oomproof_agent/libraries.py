"""Stand-ins in the place of NVIDIA's libraries.

A symbol that falls through to the real runtime crashes the script, so the real libraries must never be mapped. Those
that the dynamic loader resolves are covered by loading the stand-ins first: a loaded SONAME beats every search path.
Python code also opens libraries by absolute path, which the loader would obey; those requests are turned around here.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any, Dict, List, Optional

# Families of closed libraries; `libfoo`, `libfoo.so` and `libfoo.so.N` all belong to the family `libfoo`.
_FAMILIES = re.compile(
    r"^(lib(?:cuda|cudart|cublas|cublasLt|cudnn(?:_[a-z_]+)?|cufft|cufftw|curand|cusolver|cusolverMg|cusparse|cusparseLt"
    r"|nvrtc|nvrtc-builtins|nvJitLink|cupti|cufile|cufile_rdma|nccl|nvshmem_host|nvidia-ml|nvjpeg|npp[a-z]*))"
    r"\.so(?:\.[0-9.]+)?$"
)


class StandIns:
    """The folder of stand-ins and what a requested name becomes."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.order = _load_order(folder)
        self._by_name: Dict[str, str] = {name: os.path.join(folder, name) for name in self.order}
        self._by_family: Dict[str, str] = {}
        for name, path in self._by_name.items():
            family = _family(name)
            if family is not None:
                self._by_family.setdefault(family, path)

    def resolve(self, requested: str) -> str:
        """The path to open instead of `requested`; raises `OSError` for a closed library without a stand-in."""
        name = os.path.basename(requested)
        if name in self._by_name:
            return self._by_name[name]
        family = _family(name)
        if family is None:
            return requested
        if name == f"{family}.so" and family in self._by_family:
            return self._by_family[family]
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    def load(self) -> None:
        for name in self.order:
            ctypes.CDLL(self._by_name[name], mode=ctypes.RTLD_GLOBAL)

    def watch_python(self) -> None:
        """Turns `ctypes` requests for closed libraries into requests for stand-ins."""
        opened = ctypes._dlopen  # type: ignore[attr-defined]

        def dlopen(name: Any, *rest: Any) -> Any:
            text = os.fsdecode(name) if isinstance(name, (str, bytes)) or hasattr(name, "__fspath__") else None
            return opened(name if text is None else self.resolve(text), *rest)

        ctypes._dlopen = dlopen  # type: ignore[attr-defined]


def _family(name: str) -> Optional[str]:
    found = _FAMILIES.match(name)
    return None if found is None else found.group(1)


def _load_order(folder: str) -> List[str]:
    with open(os.path.join(folder, "load_order.txt"), encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]
