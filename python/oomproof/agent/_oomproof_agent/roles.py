"""What live tensors are for: parameter, buffer, gradient, optimizer state.

A tensor is only looked at while its owner holds it, and what is kept of it is an address, a name and the identity of
its Python object. The walk happens when something may have changed, not at every call.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterator, List, Tuple

from .device import Device
from .names import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER

# The walk is repeated for this many outermost calls: lazy modules get their parameters in the first.
_WALKS = 2


class _Root:
    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self.walks = 0
        self.first_address = 0


class Roles:
    """Labels blocks by the addresses of the tensors in them."""

    def __init__(self, device: Device, torch: Any) -> None:
        self._device = device
        self._torch = torch
        self._roots: Dict[int, _Root] = {}
        self._names: Dict[int, bytes] = {}
        self._optimizers: Dict[int, Any] = {}
        self._states: Dict[int, int] = {}

    def opened(self, module: Any) -> None:
        """An outermost call of `module` begins."""
        root = self._roots.get(id(module))
        if root is None or root.module() is not module:
            root = self._roots[id(module)] = _Root(module)
        if root.walks < _WALKS or root.first_address != self._first_address(module):
            self.walk(module)

    def walk(self, module: Any) -> None:
        """Labels the parameters and buffers of `module`."""
        root = self._roots.get(id(module))
        if root is None or root.module() is not module:
            root = self._roots[id(module)] = _Root(module)
        root.walks += 1
        root.first_address = self._first_address(module)
        with self._torch._C.DisableTorchFunction():
            taken: Dict[int, None] = {}
            parameters: List[Tuple[int, bytes]] = []
            for name, parameter in module.named_parameters():
                text = name.encode("utf-8", "replace")
                self._names[id(parameter)] = text
                _collect(parameter, text, taken, parameters)
            buffers: List[Tuple[int, bytes]] = []
            for name, buffer in module.named_buffers():
                _collect(buffer, name.encode("utf-8", "replace"), taken, buffers)
        self._device.label(PARAMETER, parameters)
        self._device.label(BUFFER, buffers)

    def optimizer_begins(self, optimizer: Any) -> None:
        """Gradients are complete: labels those of the optimizer's parameters."""
        gradients: List[Tuple[int, bytes]] = []
        unknown: List[Tuple[int, bytes]] = []
        taken: Dict[int, None] = {}
        self._optimizers[id(optimizer)] = weakref.ref(optimizer)
        with self._torch._C.DisableTorchFunction():
            for name, parameter in self._parameters_of(optimizer, unknown):
                _collect_gradient(parameter, name, taken, gradients)
        self._device.label(PARAMETER, unknown)
        self._device.label(GRADIENT, gradients)

    def optimizer_ended(self, optimizer: Any) -> None:
        """Labels the optimizer's state when there is more or less of it than before."""
        count = sum(len(state) for state in optimizer.state.values() if hasattr(state, "__len__"))
        if self._states.get(id(optimizer)) == count:
            return
        self._states[id(optimizer)] = count
        self._label_state(optimizer)

    def out_of_memory(self) -> None:
        """Labels what the usual moments have not reached yet."""
        gradients: List[Tuple[int, bytes]] = []
        taken: Dict[int, None] = {}
        with self._torch._C.DisableTorchFunction():
            for root in list(self._roots.values()):
                module = root.module()
                if module is None:
                    continue
                for name, parameter in module.named_parameters():
                    _collect_gradient(parameter, name.encode("utf-8", "replace"), taken, gradients)
        self._device.label(GRADIENT, gradients)
        for reference in list(self._optimizers.values()):
            optimizer = reference()
            if optimizer is not None:
                self._label_state(optimizer)

    def _label_state(self, optimizer: Any) -> None:
        states: List[Tuple[int, bytes]] = []
        taken: Dict[int, None] = {}
        with self._torch._C.DisableTorchFunction():
            for parameter, state in list(optimizer.state.items()):
                name = self._names.get(id(parameter), b"")
                for key, tensor in _tensors(self._torch.Tensor, state, ""):
                    _collect(tensor, name + key.encode("utf-8", "replace"), taken, states)
        self._device.label(OPTIMIZER_STATE, states)

    def _parameters_of(self, optimizer: Any, unknown: List[Tuple[int, bytes]]) -> Iterator[Tuple[bytes, Any]]:
        taken: Dict[int, None] = {}
        for group_number, group in enumerate(optimizer.param_groups):
            for number, parameter in enumerate(group["params"]):
                name = self._names.get(id(parameter))
                if name is None:
                    name = b"group%d.%d" % (group_number, number)
                    self._names[id(parameter)] = name
                    _collect(parameter, name, taken, unknown)
                yield name, parameter

    def _first_address(self, module: Any) -> int:
        with self._torch._C.DisableTorchFunction():
            for parameter in module.parameters():
                return _address(parameter)
        return 0


def _address(tensor: Any) -> int:
    try:
        return tensor.untyped_storage().data_ptr() if tensor.is_cuda else 0
    except (RuntimeError, NotImplementedError):
        # A lazy, fake or wrapped tensor has no memory of its own.
        return 0


def _collect(tensor: Any, name: bytes, taken: Dict[int, None], into: List[Tuple[int, bytes]]) -> None:
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        try:
            parts = flatten()[0]
        except Exception:  # noqa: BLE001 - a subclass may refuse; its memory then stays unlabelled
            return
        for part in parts:
            inner = getattr(tensor, part, None)
            # A sharded tensor also names the mesh of its devices.
            if hasattr(inner, "untyped_storage"):
                _collect(inner, name, taken, into)
        return
    address = _address(tensor)
    # Tied weights and views of one storage are one block.
    if address and address not in taken:
        taken[address] = None
        into.append((address, name))


def _collect_gradient(parameter: Any, name: bytes, taken: Dict[int, None], into: List[Tuple[int, bytes]]) -> None:
    if not getattr(parameter, "is_leaf", True):
        return
    gradient = parameter.grad
    if gradient is not None:
        _collect(gradient, name, taken, into)


def _tensors(kind: type, value: Any, key: str) -> Iterator[Tuple[str, Any]]:
    if isinstance(value, kind):
        yield key, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _tensors(kind, part, f"{key}.{name}")
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from _tensors(kind, part, f"{key}.{number}")
