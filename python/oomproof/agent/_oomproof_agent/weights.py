"""Weights that are not on this machine, from the configuration that is.

A library that loads weights decides by many arguments where they go and in which type, and copies them in an order of
its own. So nothing of that is imitated: the library gets a file that holds every tensor of the model, and loads that.
The file consists of one hole, so it takes no room whatever its size.
"""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Dict, Iterable, List, Optional, Tuple

# The names of types in the file format.
_TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8",
    "bool": "BOOL",
}  # fmt: skip
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx")


class UnbuildableError(Exception):
    """There is a configuration, and yet the file that it needs cannot be told from it; the text says why."""


def has_weights(folder: str) -> bool:
    return any(name.endswith(_WEIGHTS) for name in os.listdir(folder))


def folder_of(
    name: str, *, file: str, subfolder: str = "", cache: Optional[str] = None, revision: Optional[str] = None
) -> Optional[str]:
    """The folder on this machine that has the configuration `file` of `name`, a path or the name of a repository."""
    if os.path.isdir(name):
        folder = os.path.normpath(os.path.join(name, subfolder))
        return folder if os.path.isfile(os.path.join(folder, file)) else None
    try:
        hub = importlib.import_module("huggingface_hub")

        inside = f"{subfolder}/{file}" if subfolder else file
        found = hub.try_to_load_from_cache(name, inside, cache_dir=cache, revision=revision)
    except Exception:  # noqa: BLE001 - what is not the name of a repository is in no cache
        return None
    return os.path.dirname(found) if isinstance(found, str) else None


def tensors_of(model: Any, *, dtype: Any) -> List[Tuple[str, Any, Any]]:
    """Names, shapes and types of what a file of this model holds; tied tensors stand there once."""
    seen = set()
    found = []
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        found.append((name, tuple(tensor.shape), dtype if tensor.dtype.is_floating_point else tensor.dtype))
    return found


def write(folder: str, *, file: str, source: str, tensors: Iterable[Tuple[str, Any, Any]]) -> None:
    """Makes `folder` what `source` would be with weights."""
    os.makedirs(folder)
    for name in os.listdir(source):
        if name.endswith((".index.json", *_WEIGHTS)):
            continue
        os.symlink(os.path.realpath(os.path.join(source, name)), os.path.join(folder, name))
    header: Dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape, dtype in tensors:
        word = _TYPES.get(str(dtype).replace("torch.", ""))
        if word is None:
            raise UnbuildableError(f"tensors of type {dtype} cannot stand in such a file")
        size = dtype.itemsize
        for length in shape:
            size *= length
        header[name] = {"dtype": word, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, file), "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        out.truncate(8 + len(text) + at)
