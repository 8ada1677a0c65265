"""Events and what is measured with them; each function's result is printed, and test_machinery.py says what it must
be."""

import time

import torch
from report import case


def elapsed(work, *, start=None, end=None):
    start, end = start or torch.cuda.Event(enable_timing=True), end or torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


@case
def larger_work_takes_longer():
    tensors = [torch.zeros(1 << power, device="cuda") for power in (20, 24, 28)]
    times = [elapsed(lambda tensor=tensor: tensor.add_(1)) for tensor in tensors]
    products = [torch.zeros(1 << power, 1 << power, device="cuda") for power in (8, 10, 12)]
    times_of_products = [elapsed(lambda matrix=matrix: matrix @ matrix) for matrix in products]
    return [times == sorted(set(times)), times_of_products == sorted(set(times_of_products))]


@case
def times_are_those_of_the_card():
    # A GiB is read and written: 0.64 ms at the rate of an H100, and 0.92 at the 70 % of it that work is taken to reach.
    tensor = torch.zeros(1 << 28, device="cuda")
    return round(elapsed(lambda: tensor.add_(1)), 1)


@case
def times_repeat_and_are_never_none():
    tensor = torch.zeros(1 << 20, device="cuda")
    times = {elapsed(lambda: tensor.add_(1)) for _ in range(5)}
    return [len(times), elapsed(lambda: None) > 0, elapsed(lambda: time.sleep(0.01)) < 1]


@case
def streams_go_on_beside_each_other():
    side, tensor = torch.cuda.Stream(), torch.zeros(1 << 28, device="cuda")
    torch.cuda.synchronize()

    def beside():
        with torch.cuda.stream(side):
            tensor.add_(1)

    def waits():
        beside()
        torch.cuda.current_stream().wait_stream(side)

    alone = elapsed(beside)
    torch.cuda.synchronize()
    return [alone < 0.1, elapsed(waits) > 0.3]


@case
def memory_of_other_streams():
    side, block = torch.cuda.Stream(), torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        with torch.cuda.stream(side):
            block.add_(1)
        block.record_stream(side)
        block = torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    return torch.cuda.Event().query()
