"""What each part of the model takes in a forward pass of training.

These are the modules that could compute their activations again: those with parts of their own, and single ones that
keep much. They are measured at their boundaries by counters, so that nothing is held or allocated.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from .device import Device
from .intervals import Interval, Intervals
from .phases import Phases

# PyTorch's allocator hands out multiples of this.
_ROUNDING = 512
# A module without parts is listed when it keeps this share of what all keep.
_LARGE = 0.02
_MOST = 2000


class Measure:
    """One call of one module."""

    def __init__(self, module: Any, interval: Interval, inputs: Dict[int, int], *, position: int) -> None:
        self.module = module
        self.position = position
        self.interval = interval
        self.inputs = inputs
        self.outputs: Dict[int, int] = {}
        self.grown = 0
        self.peak = 0
        self.nanos = 0
        self.calls = 1


class Blocks:
    """Measures the calls of one forward pass."""

    def __init__(self, device: Device, phases: Phases, intervals: Intervals, torch: Any) -> None:
        self._device = device
        self._phases = phases
        self._intervals = intervals
        self._torch = torch
        self._running: List[Measure] = []
        self._found: Dict[int, Measure] = {}
        self._order: List[Measure] = []
        self._begun = 0
        # Linear layers that ran, as what a loss may have its scores from.
        self.linears: List[Tuple[Any, int]] = []

    def restart(self) -> None:
        """A forward pass of a step begins anew."""
        self._running = []
        self._found = {}
        self._order = []
        self.linears = []

    def before(self, module: Any, args: Any) -> None:
        self._tell_time()
        self._begun += 1
        inputs = _storages(self._torch, args)
        self._running.append(Measure(module, self._intervals.begin(), inputs, position=self._begun))

    def after(self, module: Any, result: Any) -> None:
        while self._running and self._running[-1].module is not module:
            self._running.pop()
        if not self._running:
            return
        measure = self._running.pop()
        self._tell_time()
        self._intervals.end(measure.interval)
        measure.outputs = {
            key: size for key, size in _storages(self._torch, result).items() if key not in measure.inputs
        }
        measure.grown = self._intervals.allocated() - measure.interval.before
        measure.peak = measure.interval.peak - measure.interval.before
        measure.nanos = self._intervals.time() - measure.interval.began
        earlier = self._found.get(id(module))
        if earlier is not None:
            earlier.calls += 1
            return
        self._found[id(module)] = measure
        self._order.append(measure)
        if isinstance(module, self._torch.nn.Linear):
            self.linears.append((module, int(module.out_features)))

    def facts(self, root: Any) -> Tuple[List[Dict[str, Any]], Optional[bool]]:
        """The blocks of `root` in the order in which they began, and whether they are a chain."""
        paths = {id(module): path for path, module in root.named_modules()}
        groups = _groups(root)
        whole = sum(max(0, measure.grown) for measure in self._order if not list(measure.module.children()))
        listed = []
        for measure in self._order:
            path = paths.get(id(measure.module))
            if not path:
                continue
            saved = max(0, measure.grown - sum(measure.outputs.values()))
            single = next(iter(measure.module.children()), None) is None
            if single and saved <= _LARGE * whole:
                continue
            listed.append((measure, path, saved))
        listed.sort(key=lambda entry: entry[0].position)
        facts = [self._fact(measure, path, saved, groups) for measure, path, saved in listed[:_MOST]]
        chain = all(measure.calls == 1 for measure, _, _ in listed) if listed else None
        return facts, chain

    def _fact(self, measure: Measure, path: str, saved: int, groups: Dict[str, str]) -> Dict[str, Any]:
        modules = list(measure.module.modules())
        known = self._intervals.known
        return {
            "path": path,
            "class": type(measure.module).__name__,
            "group": groups.get(path),
            "saved_bytes": saved if known else None,
            "input_bytes": sum(measure.inputs.values()),
            "output_bytes": sum(measure.outputs.values()),
            "inner_peak_bytes": max(0, measure.peak) if known else None,
            "forward_ns": measure.nanos or None,
            "parameters_bytes": sum(_bytes(entry) for entry in measure.module.parameters()),
            "batchnorm": any(normalizes_over_batch(self._torch, entry) for entry in modules),
            "dropout": any(draws(entry) for entry in modules),
        }

    def _tell_time(self) -> None:
        # The clock is told to the header when a phase begins; the same one once more changes nothing else.
        self._device.phase(self._phases.current, self._phases.step)


def normalizes_over_batch(torch: Any, module: Any) -> bool:
    return isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and bool(module.training)


def draws(module: Any) -> bool:
    """Whether a module draws random numbers when it trains."""
    if "Dropout" in type(module).__name__ or "DropPath" in type(module).__name__:
        return bool(getattr(module, "p", getattr(module, "drop_prob", 1.0)))
    value = getattr(module, "dropout", None)
    return isinstance(value, float) and value > 0.0


def _groups(root: Any) -> Dict[str, str]:
    """By path: the list of alike modules that it belongs to."""
    found: Dict[str, str] = {}
    for path, module in root.named_modules():
        kinds: Dict[type, List[str]] = {}
        for name, child in module.named_children():
            kinds.setdefault(type(child), []).append(f"{path}.{name}" if path else name)
        if "List" in type(module).__name__ or "Sequential" in type(module).__name__:
            for children in kinds.values():
                if len(children) > 1:
                    found.update(dict.fromkeys(children, path))
    return found


def _storages(torch: Any, value: Any) -> Dict[int, int]:
    """Memory behind the tensors of `value`, by address."""
    found: Dict[int, int] = {}
    seen: Set[int] = set()
    for tensor in _tensors(torch, value, seen, 0):
        try:
            storage = tensor.untyped_storage()
            if tensor.is_cuda and storage.data_ptr():
                found[storage.data_ptr()] = -(-storage.nbytes() // _ROUNDING) * _ROUNDING
        except (RuntimeError, NotImplementedError):
            # A lazy or fake tensor has no memory of its own.
            continue
    return found


def _tensors(torch: Any, value: Any, seen: Set[int], depth: int) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 4 and id(value) not in seen:
        seen.add(id(value))
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        for part in parts:
            yield from _tensors(torch, part, seen, depth + 1)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())
