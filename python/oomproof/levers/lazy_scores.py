"""A tensor of scores that do not exist.

It has the shape, type and device that the scores would have. What only rearranges rows is done to the layer's input
instead, cross entropy computes the scores a piece at a time, and every other function is refused by its name: it would
need all of them.
"""

from __future__ import annotations

import copy
import functools
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import chunked_cross_entropy

# The script calls functions of this file itself.
OF_LEVER = "chunked-loss"

# What asks for no numbers.
_ATTRIBUTES = {
    "dim", "size", "numel", "nelement", "stride", "is_floating_point", "is_complex", "ndimension", "__len__",
    "element_size", "is_contiguous", "storage_offset", "__hash__",
}  # fmt: skip
_SAME = {"contiguous", "clone", "requires_grad_"}


class State:
    """What stands behind a stand-in: rows of input, and the layer's parameters."""

    def __init__(
        self, hidden: Any, weight: Any, bias: Any, *, cast: Any, dtype: Any, chunks: int, path: str,
        refuse: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.hidden = hidden
        self.weight = weight
        self.bias = bias
        # The type that the product is computed in, where autocast chose one, and that which the script made of it.
        self.cast = cast
        self.dtype = dtype
        self.chunks = chunks
        self.path = path
        self.refuse = refuse

    def changed(self, torch: Any, *, hidden: Any = None, dtype: Any = None) -> Any:
        state = State(
            self.hidden if hidden is None else hidden,
            self.weight,
            self.bias,
            cast=self.cast,
            dtype=self.dtype if dtype is None else dtype,
            chunks=self.chunks,
            path=self.path,
            refuse=self.refuse,
        )
        return _stand_in(torch, state)


def make(
    torch: Any, hidden: Any, weight: Any, bias: Any, *, chunks: int, path: str, refuse: Callable[[str], None]
) -> Any:
    """A stand-in for `linear(hidden, weight, bias)`."""
    cast = _autocast(torch, hidden.device.type)
    state = State(hidden, weight, bias, cast=cast, dtype=cast or weight.dtype, chunks=chunks, path=path, refuse=refuse)
    return _stand_in(torch, state)


def form_of(torch: Any, tensor: Any) -> Optional[State]:
    """What stands behind a stand-in, without the layer's input, which is not kept alive; `None` for another tensor."""
    if not isinstance(tensor, _kind(torch)):
        return None
    state = copy.copy(tensor._oomproof)
    state.hidden = None
    return state  # type: ignore[no-any-return]


def behind(torch: Any, tensor: Any) -> Any:
    """The input of the layer for a stand-in, which is all that exists of it; every other tensor is itself."""
    return tensor._oomproof.hidden if isinstance(tensor, _kind(torch)) else tensor


def _stand_in(torch: Any, state: State) -> Any:
    shape = (*state.hidden.shape[:-1], state.weight.shape[0])
    kind = _kind(torch)
    tensor = torch.Tensor._make_wrapper_subclass(
        kind, shape, dtype=state.dtype, device=state.hidden.device, requires_grad=True
    )
    tensor._oomproof = state
    return tensor


def _autocast(torch: Any, device: str) -> Any:
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


@functools.lru_cache(maxsize=1)
def _kind(torch: Any) -> Any:
    class Scores(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(
            cls, function: Any, _types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
        ) -> Any:
            return _call(torch, cls, function, args, kwargs or {})

        @classmethod
        def __torch_dispatch__(cls, function: Any, *_: Any, **__: Any) -> Any:
            raise RuntimeError(f"`{function}` reads scores that do not exist")

    return Scores


def _call(torch: Any, kind: Any, function: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    name = getattr(function, "__name__", str(function))
    scores = args[0] if args else kwargs.get("input")
    if name == "__get__" or name in _ATTRIBUTES:
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **kwargs)
    if isinstance(scores, kind):
        state = scores._oomproof
        changed = _rearranged(torch, state, tuple(scores.shape), name, args[1:], kwargs)
        if changed is not None:
            return changed
        if name == "cross_entropy":
            return chunked_cross_entropy.loss(
                torch, state, *args[1:], **{k: v for k, v in kwargs.items() if k != "input"}
            )
    found = next((each for each in (*args, *kwargs.values()) if isinstance(each, kind)), None)
    if found is not None:
        found._oomproof.refuse(
            f"the scores of `{found._oomproof.path}` are also read by `{name}`, which needs all of them"
        )
    raise RuntimeError(f"`{name}` reads scores that do not exist")


def _rearranged(
    torch: Any, state: State, shape: Tuple[int, ...], name: str, args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Any:
    """The stand-in for scores whose rows are arranged otherwise; `None` when `name` does something else."""
    if name in _SAME:
        return state.changed(torch)
    if name in ("float", "double", "half", "bfloat16"):
        return state.changed(torch, dtype=getattr(torch, name))
    if name == "to":
        wanted = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype)]
        places = [value for value in (*args, *kwargs.values()) if isinstance(value, (torch.device, str))]
        if all(torch.device(place).type == state.hidden.device.type for place in places):
            return state.changed(torch, dtype=wanted[0] if wanted else None)
        return None
    if name in ("view", "reshape"):
        sizes = _sizes(args, kwargs)
        if sizes and sizes[-1] == shape[-1] and all(isinstance(size, int) for size in sizes):
            return state.changed(torch, hidden=state.hidden.reshape(*sizes[:-1], state.hidden.shape[-1]))
        return None
    if name == "flatten" and not kwargs and args and (args[1] if len(args) > 1 else -1) in (len(shape) - 2, -2):
        return state.changed(torch, hidden=state.hidden.flatten(args[0], len(shape) - 2))
    if name == "__getitem__":
        return _picked(torch, state, len(shape), args[0])
    return None


def _sizes(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[Any]:
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        return list(args[0])
    return list(args) if args else list(kwargs.get("shape", kwargs.get("size", ())))


def _picked(torch: Any, state: State, dimensions: int, index: Any) -> Any:
    """Slices of rows; the last dimension has to stay whole."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if not all(part is Ellipsis or isinstance(part, slice) for part in parts):
        return None
    if Ellipsis in parts:
        position = parts.index(Ellipsis)
        parts[position : position + 1] = [slice(None)] * (dimensions - len(parts) + 1)
    if len(parts) == dimensions and parts.pop() != slice(None):
        return None
    return state.changed(torch, hidden=state.hidden[tuple(parts)])
