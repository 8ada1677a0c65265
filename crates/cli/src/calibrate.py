"""How fast the first GPU is: large products, copies and the shortest kernel, as one line of JSON.

`oomproof gpus --calibrate` runs it on a real device.
Under `oomproof run` it gives back what the virtual one is made of.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Callable

import torch

SIZE = 4096
REPEATS = 10
MIB = 1 << 20


def nanos(work: Callable[[], object], *, times: int) -> float:
    """What one call takes on the device: the median of five rounds of several."""
    work()
    rounds = []
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(times):
            work()
        end.record()
        torch.cuda.synchronize()
        rounds.append(start.elapsed_time(end) * 1e6 / times)
    return statistics.median(rounds)


def product(dtype: torch.dtype, *, tf32: bool = False) -> int:
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a = torch.ones(SIZE, SIZE, dtype=dtype, device="cuda")
    out = torch.empty_like(a)
    return int(2 * SIZE**3 * 1e9 / nanos(lambda: torch.mm(a, a, out=out), times=REPEATS))


def copy(target: torch.Tensor, source: torch.Tensor, *, sides: int) -> int:
    took = nanos(lambda: target.copy_(source, non_blocking=True), times=REPEATS)
    return int(sides * source.numel() * 1e9 / took)


def shortest() -> int:
    """In a graph, so that the host is not what it waits for."""
    one = torch.zeros(1, device="cuda")
    one.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(200):
            one.add_(1)
    return max(1, round(nanos(graph.replay, times=REPEATS) / 200))


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU")
    here, there = (torch.empty(256 * MIB, dtype=torch.uint8, device="cuda") for _ in range(2))
    pinned = torch.empty(64 * MIB, dtype=torch.uint8, pin_memory=True)
    part = here[: pinned.numel()]
    rates = {
        "fp32": product(torch.float32),
        "tf32": product(torch.float32, tf32=True),
        "fp16": product(torch.float16),
        "bf16": product(torch.bfloat16),
        "memory_bytes": copy(here, there, sides=2),
        "from_host_bytes": copy(part, pinned, sides=1),
        "to_host_bytes": copy(pinned, part, sides=1),
        "launch_nanos": shortest(),
    }
    found = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "rates": rates}
    print(json.dumps(found))


main()
