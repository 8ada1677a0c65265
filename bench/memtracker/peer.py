"""The peer: the same GPT-2 under PyTorch's MemTracker on fake tensors, with nothing of oomproof.

Fake tensors are on the CPU because fake CUDA tensors fail without a GPU. What a CUDA user gets by default is asked
for: optimizers that work on lists of tensors. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("example", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["example"] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("example", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    arguments = parser.parse_args()
    example = load(arguments.example)

    with FakeTensorMode():
        config = example.Config()
        model = example.GPT2(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        peaks = []
        with tracker:
            for _ in range(arguments.steps):
                tokens = torch.randint(config.vocab_size, (arguments.batch_size, config.context + 1))
                inputs, targets = tokens[:, :-1].clone(), tokens[:, 1:].clone()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = model(inputs, targets)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                snapshot = tracker.get_tracker_snapshot("peak")
                tracker.reset_mod_stats()
                peaks.append(sum(by_kind["Total"] for by_kind in snapshot.values()))
    print(json.dumps({"peak_bytes": max(peaks), "steps": len(peaks)}))


if __name__ == "__main__":
    main()
