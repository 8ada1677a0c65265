"""Peaks are PyTorch's own: watching changes none of them, and the same program has the same."""

from __future__ import annotations

import pytest
from virtual_run import Program

WORKLOADS = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads).unbind(2)
        q, k, v = (part.transpose(1, 2) for part in parts)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(a)
        return x + self.mlp(self.norm_2(x))

class Decoder(nn.Module):
    def __init__(self, width=256, depth=4, heads=4, words=5000, length=256, again=False):
        super().__init__()
        self.again = again
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words, targets):
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())

def words():
    return torch.randint(5000, (4, 256)).cuda()

def decoder():
    model = Decoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        loss = model(words(), words())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

def convolutions():
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        images, labels = torch.randn(16, 3, 64, 64).cuda(), torch.randint(10, (16,)).cuda()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(torch.randn(64, 3, 64, 64, device="cuda")).argmax(1)

def mixed():
    model = Decoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(words(), words())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

def checkpointed():
    model = Decoder(again=True).cuda().to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for _ in range(3):
        model(words(), words()).backward()
        optimizer.step()
        optimizer.zero_grad()

def accumulated():
    model = Decoder().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for _ in range(2):
        for _ in range(3):
            (model(words(), words()) / 3).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

for workload in (decoder, convolutions, mixed, checkpointed, accumulated):
    workload()
    stats = torch.cuda.memory_stats()
    keys = ("allocated_bytes.all.peak", "reserved_bytes.all.peak", "requested_bytes.all.peak", "segment.all.allocated")
    result(**{workload.__name__: [stats[key] for key in keys]})
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
result(left=torch.cuda.memory_allocated())
"""

# What else looks at memory: the allocator's history, the profiler, snapshots.
WATCHED = WORKLOADS.replace(
    "for workload in (decoder, convolutions, mixed, checkpointed, accumulated):\n    workload()",
    """
torch.cuda.memory._record_memory_history(max_entries=1000)
for workload in (decoder,):
    with torch.profiler.profile(profile_memory=True):
        workload()
    torch.cuda.memory._dump_snapshot("memory.pickle")
    torch.cuda.memory._record_memory_history(enabled=None)
    result(snapshot=os.path.getsize("memory.pickle"))""",
)

LABELED = Program(WORKLOADS, ["--gpu", "h100", "--full"])
UNLABELED = Program(WORKLOADS, ["--gpu", "h100", "--full", "--no-labels"])
AGAIN = Program(WORKLOADS, ["--gpu", "h100", "--full"])
WATCHED_TOO = Program(WATCHED, ["--gpu", "h100", "--full"])


@pytest.mark.parametrize("workload", ["decoder", "convolutions", "mixed", "checkpointed", "accumulated", "left"])
def test_labels_change_nothing(workload: str) -> None:
    assert LABELED.result().results[workload] == UNLABELED.result().results[workload]


def test_the_verdict_has_torch_s_peaks() -> None:
    for finished in (LABELED.result(), UNLABELED.result()):
        figures = [value for value in finished.results.values() if isinstance(value, list)]
        assert finished.peak["allocated_bytes"] == max(allocated for allocated, *_ in figures)
        assert finished.peak["reserved_bytes"] == max(reserved for _, reserved, *_ in figures)
        assert finished.verdict["unsupported"] == []
        assert finished.verdict["steps_measured"] == 14


def test_labels_are_there_or_not() -> None:
    labeled, unlabeled = LABELED.result().peak["roles"], UNLABELED.result().peak["roles"]
    assert sum(labeled.values()) == LABELED.result().peak["allocated_bytes"]
    assert {"parameter", "gradient", "optimizer state", "activation"} <= set(labeled)
    assert not {"parameter", "gradient", "optimizer state"} & set(unlabeled)


def test_the_same_program_has_the_same_verdict() -> None:
    first, second = LABELED.result(), AGAIN.result()
    assert first.results == second.results
    here, there = dict(first.verdict), dict(second.verdict)
    for verdict, finished in ((here, first), (there, second)):
        del verdict["profile"]
        text = str(verdict).replace(str(finished.folder), "FOLDER")
        verdict["text"] = text
    assert here["text"] == there["text"]


def test_others_may_watch_too() -> None:
    finished = WATCHED_TOO.result()
    assert finished.results["decoder"] == LABELED.result().results["decoder"]
    assert finished.peak["allocated_bytes"] == finished.results["decoder"][0]
    assert finished.results["snapshot"] > 1000
    assert sum(finished.peak["roles"].values()) == finished.peak["allocated_bytes"]


def test_a_gradient_accumulates() -> None:
    # Parameters, gradients and two moments: what cannot be absent, computed by hand.
    words, places, width, depth = 5000, 256, 256, 4
    block = 4 * width * width + 4 * width + 8 * width * width + 5 * width + 4 * width
    parameters = (words + places) * width + depth * block + 2 * width
    allocated = LABELED.result().results["accumulated"][0]
    assert allocated > 4 * 4 * parameters


UNIT = 4 << 30

GROWS = """
import torch
held = torch.empty(int(sys.argv[2]), 1 << 30, device="cuda")
layer = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(layer.parameters())
for _ in range(3):
    layer(torch.ones(8, 8, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_other_sizes_give_the_law_and_the_largest_that_fits():
    options = ("--gpu", "t4", "--scale", "n=--n")
    finished = Program(GROWS, options=options, arguments=("--n", "3"), n_runs=4).result()
    assert (finished.verdict["verdict"], finished.code) == ("fits", 0)
    (growth,) = finished.verdict["growth"]
    found = {
        name: growth[name] for name in ("name", "set_by", "own", "largest_fitting", "smallest_not_fitting", "ended")
    }
    assert found == {
        "name": "n",
        "set_by": "--n",
        "own": 3,
        "largest_fitting": 3,
        "smallest_not_fitting": 4,
        "ended": None,
    }
    points = growth["points"]
    assert [(point["value"], point["verdict"]) for point in points] == [
        *((value, "fits") for value in (1, 2, 3)),
        (4, "does_not_fit"),
    ]
    allocated = [point["allocated_bytes"] for point in points[:3]]
    rest = allocated[0] - UNIT
    assert 0 < rest < 16 << 20
    assert allocated == [value * UNIT + rest for value in (1, 2, 3)]
    assert growth["law"] == {
        "constant_bytes": rest,
        "per_unit_bytes": UNIT,
        "per_unit_squared_bytes": 0,
        "deviation_bytes": 0,
    }
    # The run that the verdict is of is the one with the script's own size.
    assert finished.peak["allocated_bytes"] == allocated[2]
    assert points[3]["reason"] == "PyTorch ran out of memory in phase load"
