"""`torch.profiler` with the activities of the device."""

from __future__ import annotations

import pytest
from virtual_run import Program

PROFILE = Program(
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    model = torch.nn.Linear(1024, 1024, device="cuda")
    data = torch.randn(64, 1024, device="cuda")
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    ready = []
    torch.cuda.synchronize()
    with profile(activities=activities, profile_memory=True, record_shapes=True,
                 schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=ready.append) as profiler:
        for _ in range(4):
            model(data).sum().backward()
            model.zero_grad()
            profiler.step()
    averages = profiler.key_averages()
    found = {each.key: each for each in averages}
    kept = []
    before = torch.cuda.memory_allocated()
    with profile(activities=activities, profile_memory=True) as memory:
        kept.append(torch.empty(5 << 20, dtype=torch.uint8, device="cuda"))
    (empty,) = [each for each in memory.key_averages() if each.key == "aten::empty"]
    profiler.export_chrome_trace("trace.json")
    events = json.load(open("trace.json"))["traceEvents"]
    table = averages.table(sort_by="self_cuda_time_total", row_limit=5)
    kinds = {event.get("cat") for event in events}
    total = lambda each: getattr(each, "self_device_memory_usage", None)
    result(linear=found["aten::addmm"].count, ready=len(ready), table="aten::" in table,
           allocated=torch.cuda.memory_allocated() - before, column=total(empty),
           times=sum(each.self_device_time_total for each in averages), kernels="kernel" in kinds,
           memory=sum(event.get("name") == "[memory]" for event in events))
    """
)


@pytest.mark.parametrize(
    ("name", "value"), [("linear", 2), ("ready", 1), ("table", True), ("times", 0), ("kernels", False)]
)
def test_the_profiler_goes_on_without_kernels(name, value):
    assert PROFILE.result().results[name] == value


def test_its_memory_is_pytorch_s_own():
    results = PROFILE.result().results
    assert results["column"] == results["allocated"] == 5 << 20
    assert results["memory"] > 0


def test_what_is_missing_is_named():
    run = PROFILE.result()
    (note,) = run.assumptions("profiler_kernels")
    assert "torch.profiler lists none" in note["text"]
    assert run.verdict["unsupported"] == []
    assert run.verdict["verdict"] == "fits"
