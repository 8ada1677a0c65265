"""What a replay says of other settings is what a run under them does: the replay has PyTorch's trace of one run alone,
and the other runs are PyTorch's own again."""

from __future__ import annotations

import json
import pickle
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from virtual_run import PROGRAM, Finished, Program

# Batches that grow, a leak, a cache that is emptied, and a block that another stream still uses when it is freed.
SCRIPT = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = []
for step in range(8):
    loss = model(torch.randn(2000 + 1700 * step, 512, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(loss.detach())
    if step == 5:
        torch.cuda.empty_cache()
with torch.cuda.stream(torch.cuda.Stream()):
    other = torch.empty(9 << 20, device="cuda")
other.record_stream(torch.cuda.default_stream())
del other
last = torch.empty(3 << 20, device="cuda")
stats = torch.cuda.memory_stats()
result(
    reserved=stats["reserved_bytes.all.peak"], allocated=stats["allocated_bytes.all.peak"],
    mallocs=stats["num_device_alloc"], retries=stats["num_alloc_retries"],
)
"""
OPTIONS = ("--gpu", "t4", "--full", "--snapshot", "run.pickle")
CONFS = ("", "expandable_segments:True", "roundup_power2_divisions:4")
RUNS = {
    conf: Program(SCRIPT, options=OPTIONS, environment={"PYTORCH_CUDA_ALLOC_CONF": conf}, writes=True) for conf in CONFS
}


def _replayed(run: Finished, *options: str) -> Dict[str, Any]:
    command: List[str] = [str(PROGRAM), "replay", "run.pickle", "--gpu", "t4", "--json", *options]
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: Dict[str, Any] = json.loads(done.stdout)
    return report


def _figures(setting: Dict[str, Any]) -> Dict[str, int]:
    return {
        "reserved": setting["peak_reserved_bytes"],
        "allocated": setting["peak_allocated_bytes"],
        "mallocs": setting["cudamalloc_calls"],
        "retries": setting["retries"],
    }


@pytest.mark.parametrize("conf", CONFS)
def test_a_virtual_run_is_replayed_exactly(conf: str) -> None:
    run = RUNS[conf].result()
    report = _replayed(run)
    assert report["devices"][0]["complete"]
    assert report["devices"][0]["first_difference"] is None
    assert report["match_percent"] == 100
    assert report["recorded"]["conf"] == conf
    assert _figures(report["recorded"]) == run.results


@pytest.mark.parametrize("conf", CONFS)
def test_settings_that_were_not_run_are_foretold(conf: str) -> None:
    (foretold,) = _replayed(RUNS[""].result(), "--conf", conf)["settings"]
    assert _figures(foretold) == RUNS[conf].result().results


def test_settings_matter_to_this_script() -> None:
    reserved = [RUNS[conf].result().results["reserved"] for conf in CONFS]
    assert len(set(reserved)) == len(CONFS)


def test_a_written_replay_is_the_recording(tmp_path: Path) -> None:
    run = RUNS[""].result()
    _replayed(run, "--write", str(tmp_path / "again.pickle"))
    assert _entries(tmp_path / "again.pickle") == _entries(run.folder / "run.pickle")


def _entries(path: Path) -> List[Tuple[Any, ...]]:
    snapshot = pickle.loads(path.read_bytes())
    trace = [entry for entry in snapshot["device_traces"][0] if entry["action"] != "snapshot"]
    assert not any("_oomproof_agent" in str(entry) for entry in trace)
    return [
        (entry["action"], entry["addr"], entry["size"], entry["stream"], _lines(entry.get("frames", [])))
        for entry in trace
    ]


def _lines(frames: List[Dict[str, Any]]) -> List[Tuple[str, int]]:
    return [(frame["filename"], frame["line"]) for frame in frames]
