"""Rates that were measured on a device: the program that measures them, and what they do to the time of a step."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Dict

import pytest
from virtual_run import ROOT, Program

TIMING = ROOT / "crates" / "cli" / "src" / "calibrate.py"
# One product of bfloat16 numbers in a step, beside which the rest is short.
STEP = """
    import torch

    n = 16384
    weight = torch.nn.Parameter(torch.empty(n, n, device="cuda", dtype=torch.bfloat16))
    data = torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.SGD([weight], 0.1)
    for _ in range(4):
        for _ in range(20):
            with torch.no_grad():
                data @ weight
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
    """
# What the catalog has for an H100, as `WORK` of test_times.py counts it: 70 % of operations of a cycle times clock.
PER_CYCLE = {"fp32": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096}
STATED = {name: 132 * 1.98e9 * count for name, count in PER_CYCLE.items()}
STATED_BYTES = 2_619_000e3 * 5120 / 8 * 2


_cache = tempfile.TemporaryDirectory(prefix="oomproof-measured-")


def cache(*, share: float) -> str:
    """A folder with rates that are this share of those that work reaches on an H100."""
    folder = _cache.name
    rates: Dict[str, Any] = {name: int(rate * 0.7 * share) for name, rate in STATED.items()}
    rates.update(memory_bytes=int(STATED_BYTES * 0.7 * share), launch_nanos=int(2000 / share))
    rates.update(from_host_bytes=int(25e9 * share), to_host_bytes=int(25e9 * share))
    path = Path(folder) / "oomproof" / "calibration" / "nvidia-h100-80gb-hbm3.json"
    path.parent.mkdir(parents=True)
    whole = {"schema": 1, "device": "NVIDIA H100 80GB HBM3", "driver": "580.1", "torch": "2.15.0"}
    path.write_text(json.dumps({**whole, "measured_at_secs": 1, "rates": rates}))
    return folder


H100 = ("--gpu", "h100")
PLAIN = Program(STEP, H100)
HALF = Program(STEP, H100, environment={"XDG_CACHE_HOME": cache(share=0.5)})
MEASURE = Program(TIMING.read_text().replace("from __future__ import annotations", ""), H100)


def test_at_half_the_rates_a_step_takes_twice_as_long():
    plain, half = PLAIN.result(), HALF.result()
    times = [run.verdict["step_device_ns"]["likely"] for run in (plain, half)]
    assert times[1] == pytest.approx(2 * times[0], rel=0.02)
    assert "measured on such a device, driver 580.1" in half.err
    assert "measured" not in plain.err


def test_on_the_virtual_device_the_timing_program_finds_what_it_is_made_of():
    run = MEASURE.result()
    (line,) = [line for line in run.err.splitlines() if line.startswith('{"device"')]
    found = json.loads(line)
    assert found["device"] == "NVIDIA H100 80GB HBM3"
    rates = found["rates"]
    for name, stated in [*STATED.items(), ("memory_bytes", STATED_BYTES)]:
        assert 0.65 < rates[name] / stated < 0.75, name
    for way in ("from_host_bytes", "to_host_bytes"):
        assert rates[way] == pytest.approx(25e9, rel=0.05)
    assert rates["launch_nanos"] == pytest.approx(2000, rel=0.1)
