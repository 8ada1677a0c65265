"""Limits and settings of the environment that scripts meet."""

from __future__ import annotations

from typing import Any, Tuple

import pytest
from virtual_run import Program

T4 = ("--gpu", "t4")
GIB = 2**30

LOOKS = """
import torch
def look():
    found = dict(count=torch.cuda.device_count(), available=torch.cuda.is_available())
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    found["by_nvml"] = torch.cuda.is_available()
    found["nvml_count"] = torch.cuda._device_count_nvml()
    try:
        found["values"] = torch.ones(4, device="cuda").tolist()
    except Exception as error:
        found["error"] = str(error)
    return found
"""
# Each in a child of its own, which is the first of the two to use a device.
VISIBLE = Program(
    LOOKS
    + """
for value in sys.argv[1:]:
    if not os.fork():
        os.environ["CUDA_VISIBLE_DEVICES"] = value
        result(**{value: look()})
        os._exit(0)
    os.wait()
""",
    T4,
    arguments=["0", "", "3", "-1", "0,0", "GPU-deadbeef", "00", "0,7"],
)
INVISIBLE = Program(LOOKS + "result(**look())\n", T4, environment={"CUDA_VISIBLE_DEVICES": "3"})

CARD = Program(
    """
    import torch
    free, total = torch.cuda.mem_get_info()
    properties = torch.cuda.get_device_properties(0)
    result(
        free=free, total=total, name=properties.name, capability=torch.cuda.get_device_capability(),
        memory=properties.total_memory, processors=properties.multi_processor_count, count=torch.cuda.device_count(),
        bf16=torch.cuda.is_bf16_supported(), archs=bool(torch.cuda.get_arch_list()), version=torch.version.cuda,
    )
    keep = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    result(less=free - torch.cuda.mem_get_info()[0])
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        result(fraction=str(error))
    model = torch.nn.Linear(8, 8).cuda()
    model(torch.ones(8, 8).cuda()).sum().backward()
    """,
    ["--gpu", "rtx-4090", "--reserved-by-others", "3GiB"],
)

LIMITED = """
import torch, resource
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.randn(64, 1024).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
result(limit=resource.getrlimit(resource.RLIMIT_AS)[0], allocated=torch.cuda.max_memory_allocated())
"""


def limited(gibibytes: int) -> Program:
    return Program(LIMITED, T4, prefix=("/bin/sh", "-c", f'ulimit -v {gibibytes << 20} && exec "$@"', "sh"))


LIMITS = {12: limited(12), 8: limited(8)}
UNLIMITED = Program(LIMITED, T4)

FRAGMENTING = """
import torch
for size in range(24, 120, 4):
    block = torch.empty(size << 20, dtype=torch.uint8, device="cuda")
    small = torch.empty(2 << 20, dtype=torch.uint8, device="cuda")
    del block
    hold = globals().setdefault("hold", []); hold.append(small)
model = torch.nn.Linear(8, 8).cuda()
model(torch.ones(8, 8).cuda()).sum().backward()
result(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(),
       backend=torch.cuda.get_allocator_backend())
"""
CONF = {
    conf: Program(FRAGMENTING, T4, environment={"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {})
    for conf in ("", "expandable_segments:True", "backend:cudaMallocAsync")
}
UNCACHED = Program(FRAGMENTING, T4, environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})

WORKERS = """
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, at):
        return torch.full((16,), float(at)), at % 4
def main(how):
    model = torch.nn.Linear(16, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = DataLoader(Rows(), batch_size=16, num_workers=2, pin_memory=True, multiprocessing_context=how)
    seen = []
    for _ in range(1):
        for x, y in rows:
            pinned = x.is_pinned()
            seen.append(x.cuda(non_blocking=True)[0, 0].item())
            torch.nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
    result(seen=seen, pinned=pinned)
if __name__ == "__main__":
    main(sys.argv[1])
"""
LOADERS = {how: Program(WORKERS, [*T4, "--full"], arguments=[how]) for how in ("fork", "spawn")}

PROCESSES = """
import torch
def train(rank, steps=2, width=256):
    model = torch.nn.Linear(width, width).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(8, width).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    result(**{f"rank {rank}": torch.cuda.max_memory_allocated(), f"reserved {rank}": torch.cuda.max_memory_reserved()})
def main():
    torch.multiprocessing.start_processes(train, nprocs=1, start_method=sys.argv[1])
    if sys.argv[2] == "both":
        train(1, width=512)
if __name__ == "__main__":
    main()
"""
STARTED = {
    (how, who): Program(PROCESSES, T4, arguments=[how, who])
    for how, who in (("spawn", "child"), ("fork", "child"), ("spawn", "both"))
}

DEFAULTS = Program(
    """
    import torch
    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 8))
    result(where=str(next(model.parameters()).device), kind=str(next(model.parameters()).dtype),
           ones=torch.ones(3).tolist(), allocated=torch.cuda.memory_allocated())
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(4, 512)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """,
    T4,
)

INFERENCE = Program(
    """
    import torch
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(3)]).cuda().eval()
    with torch.inference_mode():
        for _ in range(5):
            out = model(torch.randn(256, 512).cuda())
    result(allocated=torch.cuda.max_memory_allocated())
    """,
    T4,
)


@pytest.mark.parametrize(
    ("value", "count"),
    [("0", 1), ("", 0), ("3", 0), ("-1", 0), ("0,0", 0), ("GPU-deadbeef", 0), ("00", 1), ("0,7", 1)],
)
def test_visible_devices_are_read_as_the_driver_reads_them(value: str, count: int) -> None:
    found = VISIBLE.result().results[value]
    assert (found["count"], found["available"], found["by_nvml"]) == (count, count > 0, count > 0)
    assert found.get("values") == ([1, 1, 1, 1] if count else None), found
    if count == 0:
        assert found["error"] == "No CUDA GPUs are available"


def test_a_device_that_is_not_there() -> None:
    finished = INVISIBLE.result()
    expected = {
        "count": 0,
        "available": False,
        "by_nvml": False,
        "nvml_count": 0,
        "error": "No CUDA GPUs are available",
    }
    assert finished.results == expected
    assert finished.reasons() == ["device_unused"]


def test_the_card_is_the_one_that_was_named() -> None:
    results, verdict = CARD.result().results, CARD.result().verdict
    assert results["name"] == verdict["device"]["name"] == "NVIDIA GeForce RTX 4090"
    assert results["total"] == results["memory"] == verdict["device"]["total_bytes"]
    assert (results["capability"], results["processors"], results["count"]) == ([8, 9], 128, 1)
    assert results["bf16"]
    assert results["less"] == 64 << 20
    assert results["free"] == results["total"] - 3 * GIB - verdict["context_bytes"]["likely"]
    assert verdict["device"]["reserved_by_others_bytes"] == 3 * GIB
    assert "0.01" not in results["fraction"] and "CUDA out of memory" in results["fraction"]


@pytest.mark.parametrize("gibibytes", [12, 8])
def test_a_limit_of_the_address_space(gibibytes: int) -> None:
    finished = LIMITS[gibibytes].result()
    assert finished.code == 0, finished.err
    assert finished.results["limit"] == gibibytes * GIB
    assert finished.results["allocated"] == UNLIMITED.result().results["allocated"]


def test_expandable_segments_reserve_less() -> None:
    plain, expandable = CONF[""].result(), CONF["expandable_segments:True"].result()
    assert expandable.results["allocated"] == plain.results["allocated"]
    assert expandable.results["reserved"] < plain.results["reserved"] / 2
    for finished in (plain, expandable):
        assert finished.peak["reserved_bytes"] == finished.results["reserved"]
        assert finished.verdict["unsupported"] == []
    assert expandable.verdict["conf"] == "expandable_segments:True"


def test_the_driver_s_own_pool() -> None:
    finished = CONF["backend:cudaMallocAsync"].result()
    assert finished.results["backend"] == "cudaMallocAsync"
    assert finished.peak["allocated_bytes"] == finished.results["allocated"] > 120 << 20
    assert finished.peak["reserved_bytes"] == finished.results["reserved"]
    # The blocks that grow and go leave no holes behind, and the pool grows in pieces of 32 MiB.
    assert 0 <= finished.results["reserved"] - finished.results["allocated"] < 32 << 20
    assert [each["kind"] for each in finished.assumptions("driver_pool")] == ["driver_pool"]


def test_memory_without_a_cache_is_counted_by_the_device() -> None:
    finished = UNCACHED.result()
    assert finished.results["allocated"] == 0, "PyTorch counts nothing"
    assert finished.peak["allocated_bytes"] == (116 + 24 * 2) << 20


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_of_a_data_loader(how: str) -> None:
    finished = LOADERS[how].result()
    assert finished.code == 0, finished.err
    assert finished.results == {"seen": [0, 16, 32, 48], "pinned": True}
    assert finished.verdict["steps_measured"] == 4


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_a_process_that_the_script_starts(how: str) -> None:
    finished = STARTED[how, "child"].result()
    assert finished.peak["allocated_bytes"] == finished.results["rank 0"] > 2 * 256 * 256 * 4
    assert finished.assumptions("other_processes") == []


def test_a_process_beside_another_is_named() -> None:
    finished = STARTED["spawn", "both"].result()
    assert finished.peak["allocated_bytes"] == finished.results["rank 1"] > 2 * 512 * 512 * 4
    (other,) = finished.assumptions("other_processes")
    assert f"{finished.results['reserved 0'] / 2**20:.2f} MiB" in other["text"]


def test_defaults_of_the_script() -> None:
    finished = DEFAULTS.result()
    expected: Tuple[Any, ...] = ("cuda:0", "torch.bfloat16", [1, 1, 1])
    assert tuple(finished.results[name] for name in ("where", "kind", "ones")) == expected
    assert finished.results["allocated"] == 2 * (512 * 512 + 512 + 512 * 8) + 512
    assert finished.verdict["verdict"] == "fits"


def test_a_script_that_only_infers() -> None:
    finished = INFERENCE.result()
    assert (finished.verdict["verdict"], finished.code) == ("fits", 0)
    assert finished.verdict["phases"]["evaluation"]["allocated_bytes"] == finished.results["allocated"]
    assert "forward" in finished.verdict["not_reached"]
