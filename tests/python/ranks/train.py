"""What ranks do together, in one process each; every finding is a line of JSON."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

RANK, WORLD = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", RANK)


def found(what, value):
    os.write(2, ("\n" + json.dumps({"rank": RANK, "what": what, "value": value}) + "\n").encode())


def on_device(values):
    return torch.tensor(values).to(DEVICE)


def exchange():
    total = on_device([1.5, 2.0 + RANK])
    dist.all_reduce(total)
    found("sum", total.tolist())
    gathered = [None] * WORLD
    dist.all_gather_object(gathered, {"rank": RANK, "text": "x" * 10 * (RANK + 1)})
    found("objects", [len(each["text"]) for each in gathered])
    # Rank r gives r + 1 numbers to the first rank, and one more to each that follows.
    gives = [RANK + 1 + to for to in range(WORLD)]
    takes = [by + 1 + RANK for by in range(WORLD)]
    received = torch.empty(sum(takes), dtype=torch.int64, device=DEVICE)
    dist.all_to_all_single(received, on_device([100 * RANK + at for at in range(sum(gives))]), takes, gives)
    found("uneven", received.tolist())
    if RANK == 0:
        dist.send(on_device([7, 8]), 1)
    elif RANK == 1:
        message = torch.zeros(2, dtype=torch.int64, device=DEVICE)
        dist.recv(message, 0)
        found("message", message.tolist())
    alone = [dist.new_group([rank]) for rank in range(WORLD)][RANK]
    own = on_device([float(RANK)])
    dist.all_reduce(own, group=alone)
    found("alone", own.tolist())
    part = torch.zeros(1, device=DEVICE)
    dist.reduce_scatter_tensor(part, on_device([float(RANK), 10.0 * RANK]), op=dist.ReduceOp.AVG)
    found("part", part.tolist())


def layers():
    return nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(4)]).to(DEVICE)


def train(model):
    optimizer = torch.optim.AdamW(model.parameters())
    batches = 0
    for _ in torch.utils.data.DataLoader(range(10_000), batch_size=1):
        batches += 1
        loss = model(torch.randn(8, 1024, device=DEVICE)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return batches


def held(make):
    before = torch.cuda.memory_allocated()
    model = make()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 1024, device=DEVICE)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    return torch.cuda.memory_allocated() - before, model


def main():
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl")
    found("devices", torch.cuda.device_count())
    exchange()
    torch.randn(64, 64, device=DEVICE) @ torch.randn(64, 64, device=DEVICE)
    sharded, model = held(lambda: fully_shard(layers()))
    found("sharded", sharded)
    del model
    whole, model = held(lambda: DistributedDataParallel(layers(), device_ids=[RANK]))
    found("whole", whole)
    batches = train(model)
    found("batches", batches)
    counted = on_device([batches])
    dist.all_reduce(counted)
    found("batches of all", counted.tolist())
    dist.destroy_process_group()


if "--fail" in sys.argv and RANK == 1:
    raise ValueError("this rank fails")
main()
