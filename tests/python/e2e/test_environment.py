"""Limits and settings of the environment that scripts meet."""

from __future__ import annotations

from typing import Any, Tuple

import pytest
from virtual_run import Program

T4 = ("--gpu", "t4")
GIB = 2**30

DEVICES = """
import torch
assert not torch.cuda.is_initialized()
found = dict(count=torch.cuda.device_count(), available=torch.cuda.is_available())
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
torch.cuda.device_count.cache_clear() if hasattr(torch.cuda.device_count, "cache_clear") else None
found["by_nvml"] = torch.cuda.is_available()
found["nvml_count"] = torch.cuda._device_count_nvml()
if found["count"]:
    x = torch.ones(4, device="cuda")
    found["properties"] = str(torch.cuda.get_device_properties(0))
else:
    try:
        torch.ones(4, device="cuda")
    except Exception as error:
        found["error"] = str(error)
result(**found)
"""


def visible(value: str) -> Program:
    return Program(DEVICES, T4, environment={"CUDA_VISIBLE_DEVICES": value})


VISIBLE = {value: visible(value) for value in ("0", "", "3", "-1", "0,0", "GPU-deadbeef")}

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


@pytest.mark.parametrize(("value", "count"), [("0", 1), ("", 0), ("3", 0), ("-1", 0), ("0,0", 0), ("GPU-deadbeef", 0)])
def test_visible_devices_are_read_as_the_driver_reads_them(value: str, count: int) -> None:
    finished = VISIBLE[value].result()
    results = finished.results
    assert (results["count"], results["available"], results["by_nvml"]) == (count, count > 0, count > 0), finished.err
    if count == 0:
        assert "No CUDA GPUs are available" in results["error"]


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


def test_the_driver_s_own_pool_is_refused() -> None:
    finished = CONF["backend:cudaMallocAsync"].result()
    assert (finished.code, finished.results) == (5, {})
    assert "`cudaMallocAsync` is not supported" in finished.verdict["error"]["text"]
    assert "PYTORCH_ALLOC_CONF" in finished.verdict["error"]["hint"]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_of_a_data_loader(how: str) -> None:
    finished = LOADERS[how].result()
    assert finished.code == 0, finished.err
    assert finished.results == {"seen": [0, 16, 32, 48], "pinned": True}
    assert finished.verdict["steps_measured"] == 4


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
