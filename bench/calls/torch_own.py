"""PyTorch's own time for single operations on the virtual device, the device's part included.

Run by `run.py` below `device_only.py`. Prints one JSON object: operation -> nanoseconds of CPU for one, the least of
several rounds, with the time of an empty loop taken off.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import torch

ROUNDS = 15
REPEATS = 2000


def nanos(operation: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time_ns()
        for _ in range(REPEATS):
            operation()
        best = min(best, (time.process_time_ns() - begin) / REPEATS)
    return best


def main() -> None:
    # A thousand live blocks, as in a training step.
    live = [torch.empty(1 << 18, device="cuda") for _ in range(1000)]
    a, b, out = live[:3]
    host = torch.ones(2)
    event, stream = torch.cuda.Event(), torch.cuda.current_stream()
    lists = [live[at : at + 36] for at in (100, 200, 300)]

    def allocate_and_free() -> None:
        torch.empty_strided((1 << 18,), (1,), device="cuda")

    operations: dict[str, Callable[[], object]] = {
        "allocate_and_free": allocate_and_free,
        "add_out": lambda: torch.add(a, b, out=out),
        "fill": lambda: a.fill_(1.0),
        "sum_out": lambda: torch.sum(a, 0, out=out[0]),
        "foreach_add_36": lambda: torch._foreach_add_(lists[0], lists[1]),
        "copy_from_host": lambda: out[:2].copy_(host),
        "copy_to_host": lambda: host.copy_(out[:2]),
        "event_record": lambda: event.record(stream),
    }
    empty = nanos(lambda: None)
    with torch.no_grad():
        figures = {name: nanos(operation) - empty for name, operation in operations.items()}
    os.write(2, ("FIGURES" + json.dumps(figures) + "\n").encode())


main()
