"""The peer: a workload under PyTorch's MemTracker on fake tensors, with nothing of oomproof; it prints the peak.

Fake CUDA tensors fail without a GPU, so what the workload asks of `cuda` is done on fake CPU tensors.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.overrides import TorchFunctionMode


def on_cpu(value):
    if isinstance(value, str) and value.startswith("cuda"):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value


class OnCpu(TorchFunctionMode):
    """Moves every request for the device to the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        kwargs = {name: on_cpu(value) for name, value in (kwargs or {}).items()}
        return function(*map(on_cpu, args), **kwargs)


def main() -> None:
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(script).parent))
    tracker = MemTracker()

    def total() -> int:
        return sum(kinds["Total"] for kinds in tracker.get_tracker_snapshot("peak").values())

    autocast = torch.autocast.__init__

    def autocast_on_cpu(self, device_type, *args, **kwargs):
        autocast(self, "cpu", *args, **kwargs)

    torch.autocast.__init__ = autocast_on_cpu
    torch.nn.Module.cuda = lambda self, device=None: self
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True
    for name in ("init", "synchronize", "empty_cache"):
        setattr(torch.cuda, name, lambda *_: None)
    torch.cuda.reset_peak_memory_stats = torch.cuda.memory.reset_peak_memory_stats = tracker.reset_mod_stats
    torch.cuda.max_memory_allocated = total
    torch.cuda.max_memory_reserved = torch.cuda.memory_reserved = total
    with FakeTensorMode(allow_non_fake_inputs=True), tracker, OnCpu():
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
