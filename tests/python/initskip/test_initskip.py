"""Large parameters take no memory; everything else is computed as ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

AGENT = Path(__file__).resolve().parents[3] / "python" / "oomproof" / "agent"
STANDINS = os.environ.get("OOMPROOF_TEST_STANDINS", "")

BEFORE = """
import ctypes, json, resource, sys, copy
sys.path.insert(0, {agent!r})
standins = {standins!r}
if standins:
    with open(standins + "/load_order.txt") as order:
        for name in order.read().split():
            ctypes.CDLL(standins + "/" + name, mode=ctypes.RTLD_GLOBAL)
import torch
from torch import nn
from _oomproof_agent import initskip
notes = []
initskip.install({{"real_init": {real_init!r}}}, notes.append)
def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 32)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
class Decoder(nn.Module):
    def __init__(self, width, depth, words=50000):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, words, bias=False)
        self.apply(self._init_weights)
    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.weight.data.normal_(mean=0.0, std=0.02)
        elif isinstance(module, nn.Embedding):
            nn.init.trunc_normal_(module.weight, std=0.02)
class Holder(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.w = nn.Parameter(make())
def resident(make):
    before = peak()
    kept = make()
    return peak() - before
MiB = 1 << 20
N = 64 * MiB
"""

CASES: List[str] = [
    # A model far larger than what it takes
    "start = peak(); model = Decoder(4096, 30)\n"
    "count = sum(p.numel() for p in model.parameters()); assert count > 6.4e9, count\n"
    "assert peak() - start < 100 * MiB, peak() - start",
    "start = peak(); model = Decoder(4096, 30).half().bfloat16(); assert peak() - start < 100 * MiB\n"
    "assert model.head.weight.dtype == torch.bfloat16",
    "start = peak(); model = copy.deepcopy(Decoder(4096, 8)); assert peak() - start < 100 * MiB",
    "start = peak(); model = Decoder(4096, 8).to(dtype=torch.float64); assert peak() - start < 100 * MiB",
    # Ways of initialization
    "assert resident(lambda: Holder(lambda: torch.randn(N))) < 8 * MiB",
    "h = Holder(lambda: torch.randn(MiB)); assert abs(h.w.std().item() - 1) < 0.01",
    *[
        f"h = Holder(lambda: torch.empty(8192, 8192)); assert resident(lambda: {how}) < 8 * MiB"
        for how in (
            "nn.init.normal_(h.w)", "nn.init.uniform_(h.w)", "nn.init.zeros_(h.w)", "nn.init.ones_(h.w)",
            "nn.init.constant_(h.w, 3)", "nn.init.trunc_normal_(h.w)", "nn.init.xavier_uniform_(h.w)",
            "nn.init.xavier_normal_(h.w)", "nn.init.kaiming_uniform_(h.w)", "nn.init.kaiming_normal_(h.w)",
            "nn.init.orthogonal_(h.w)", "nn.init.eye_(h.w)", "nn.init.sparse_(h.w, 0.5)",
            "h.w.data.normal_()", "h.w.data.uniform_().mul_(2).sub_(1)", "h.w.data.fill_(1)", "h.w.detach().zero_()",
        )
    ],
    # The value is always the same
    "h = Holder(lambda: torch.ones(MiB)); h.w.data.normal_(); assert not h.w.any()",
    "h = Holder(lambda: torch.ones(MiB + 1)); h.w.data.normal_(); assert not h.w.any()",
    "big = torch.ones(4 * MiB); h = Holder(lambda: big[3:-3]); h.w.data.normal_()\n"
    "assert not h.w.any() and big[:3].sum() == 3 and big[-3:].sum() == 3",
    # Small parameters and the user's own tensors
    "w = nn.Linear(256, 256).weight; assert abs(w.std().item() * 16 - 3 ** -0.5) < 0.01, w.std()",
    "n = nn.LayerNorm(256); assert n.weight.sum() == 256 and n.bias.sum() == 0",
    "Decoder(512, 1); t = torch.empty(4 * MiB).normal_(); assert abs(t.std().item() - 1) < 0.01",
    "Decoder(512, 1); t = torch.empty(4 * MiB).fill_(2); assert (t == 2).all()",
    "Decoder(512, 1); t = torch.randn(8 * MiB); assert abs(t.std().item() - 1) < 0.01",
    "Decoder(512, 1); t = nn.init.ones_(torch.empty(4 * MiB)); assert (t == 1).all()",
    "m = nn.Linear(1024, 1024)\nfor _ in range(3): del m; t = torch.empty(1024, 1024).fill_(1); assert t.all(); m = t",
    "class B(nn.Module):\n def __init__(self):\n  super().__init__(); self.register_buffer('m', torch.full((2048, 2048), 7.0))\n"
    "assert (B().m == 7).all()",
    # What was loaded stays
    "m = nn.Linear(1024, 1024); m.load_state_dict({'weight': torch.ones(1024, 1024), 'bias': torch.zeros(1024)})\n"
    "assert m.weight.all() and m.half().weight.all() and copy.deepcopy(m).weight.all()",
    "m = nn.Linear(1024, 1024); m.weight.data[5, 5] = 1; m.weight.data.mul_(2); assert m.weight.sum() == 2",
    "m = nn.Linear(1024, 1024); nn.init.zeros_(m.weight); m.weight.data += 1; assert m.weight.sum() == 1 << 20",
    # Parameters without a size yet
    "m = nn.LazyLinear(2048); m(torch.ones(1, 2048)); assert m.weight.any()",
    # Training
    "m = nn.Linear(1024, 1024); initskip.flush(); m.weight.data.fill_(1); assert m.weight.all()",
    "nn.Linear(1024, 1024); initskip.flush(); assert 'normal_' not in vars(torch.Tensor)\n"
    "m = nn.Linear(1024, 1024); assert not m.weight.any()",
    "m = nn.Linear(1024, 1024)\n@torch.compile(backend='eager', fullgraph=True)\n"
    "def f(x): return x.clone().zero_().fill_(2) + torch.randn(4) * 0\nassert (f(torch.ones(4)) == 2).all()",
    "m = nn.Linear(1024, 1024); o = torch.optim.SGD(m.parameters(), 1.0); m(torch.ones(1, 1024)).sum().backward()\n"
    "initskip.flush(); o.step(); assert (m.weight == -1).all()",
    # What is said
    "nn.Linear(1024, 1024); nn.Linear(16, 16); initskip.flush(); initskip.flush()\n"
    "assert notes == [{'kind': 'skipped_init', 'tensors': 1, 'bytes': 4 << 20}], notes",
    "m = nn.Linear(1024, 1024); nn.init.ones_(m.weight); m.half(); initskip.flush(); assert notes[0]['tensors'] == 1",
    "nn.Linear(16, 16); initskip.flush(); assert notes == []",
    "for _ in range(5): m = nn.Linear(1024, 1024); del m\n"
    "initskip.flush(); assert notes[0]['tensors'] == 5, notes",
    "h = Holder(lambda: torch.randn(N)); initskip.flush(); assert notes[0]['tensors'] == 1, notes",
    # What PyTorch replaces itself
    "torch.set_default_device('meta'); assert torch.randn(3).device.type == torch.rand(3).device.type == 'meta'",
]  # fmt: skip

# Importing torch takes longer than most cases: one process forks for each. A child starts without the
# pages of libraries that its parent had mapped; they are read in first, or a case's peak would count them.
EACH = """
import os, traceback
failed = []
libc = ctypes.CDLL(None, use_errno=True)
MADV_POPULATE_READ = 22
def map_libraries():
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, rights, _offset, _device, inode, *_path = line.split()
            if inode != "0" and rights.startswith("r"):
                start, end = (int(address, 16) for address in span.split("-"))
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_POPULATE_READ)
for number, case in enumerate({cases!r}):
    child = os.fork()
    if not child:
        map_libraries()
        with open("/proc/self/clear_refs", "w") as peaks:
            peaks.write("5")
        try:
            exec(case, globals())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(case)
print(json.dumps(failed))
"""


def run(script: str, *, real_init: bool = False) -> Any:
    before = BEFORE.format(agent=str(AGENT), standins=STANDINS, real_init=real_init)
    done = subprocess.run([sys.executable, "-c", before + script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_cases() -> None:
    failed, said = run(EACH.format(cases=CASES))
    assert not failed, said


REAL: Dict[str, str] = {
    "weights are drawn": "w = nn.Linear(2048, 2048).weight; print(json.dumps(bool(w.std() > 0.01)))",
    "nothing is replaced": "nn.Linear(2048, 2048); print(json.dumps('normal_' not in vars(torch.Tensor)))",
}


@pytest.mark.parametrize("script", REAL.values(), ids=REAL)
def test_real_initialization(script: str) -> None:
    assert run(script, real_init=True)[0] is True
