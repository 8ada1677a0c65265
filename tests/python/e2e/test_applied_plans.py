"""A plan takes on the virtual GPU what the same change takes when it is written into the script."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Dict

import pytest
from virtual_run import PROGRAM, ROOT, Program

SCRIPT = """
import torch, torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
HAND = set(sys.argv[1:])
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(512, 2048), nn.Linear(2048, 512)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4000, 512)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(512, 4000)
    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if "checkpoint" in HAND else block(x)
        return self.head(x)
net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
data = TensorDataset(torch.randint(0, 4000, (64, 257)))
for (tokens,) in DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    for part in tokens.chunk(4) if "micro" in HAND else [tokens]:
        part = part.cuda()
        logits = net(part[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten()) * (len(part) / len(tokens))
        loss.backward()
    optimizer.step()
result(peak=torch.cuda.max_memory_allocated())
"""

PLANS: Dict[str, str] = {
    "checkpoint": 'name = "activation-checkpointing"\nmodules = ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]',
    "micro": 'name = "micro-batch"\nchunks = 4',
}


def planned(lever: str, *options: str) -> Program:
    text = f"schema = 1\n[expects]\nparameters = 12498848\n[[lever]]\n{lever}\n"
    return Program(SCRIPT, options=("--gpu", "h100", "--plan", "plan.toml", *options), files={"plan.toml": text})


def probing() -> str:
    """A folder of the program's parts, whose agent asks for the facts of plans in every run."""
    folder = Path(tempfile.mkdtemp(prefix="probing-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    agent = ROOT / "python" / "oomproof" / "agent"
    (folder / "agent").mkdir()
    (folder / "agent" / "_oomproof_agent").symlink_to(agent / "_oomproof_agent")
    (folder / PROGRAM.with_name("liboomproof_vgpu.so").name).symlink_to(PROGRAM.with_name("liboomproof_vgpu.so"))
    (folder / "agent" / "sitecustomize.py").write_text(ASKS + (agent / "sitecustomize.py").read_text())
    return str(folder)


ASKS = """
import json, os
path = os.environ.get("OOMPROOF_RUN")
if path:
    with open(path) as text:
        settings = json.load(text)
    with open(path, "w") as text:
        json.dump({**settings, "probe": True}, text)
"""
PROBED = Program(SCRIPT, options=("--gpu", "h100", "--profile", "facts.oomprofile"), writes=True,
                 environment={"OOMPROOF_RESOURCES": probing()})  # fmt: skip
PLAIN = Program(SCRIPT, options=("--gpu", "h100"))
PAIRS = {
    name: (planned(lever, "--full"), Program(SCRIPT, options=("--gpu", "h100", "--full"), arguments=(name,)))
    for name, lever in PLANS.items()
}
CUT = planned(PLANS["checkpoint"])
REFUSED = planned('name = "activation-checkpointing"\nmodules = ["layers.0"]')


def broken() -> str:
    """A folder of the program's parts, in which the code of a lever fails when it is used."""
    folder = Path(tempfile.mkdtemp(prefix="broken-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for part in ("agent", "levers"):
        shutil.copytree(ROOT / "python" / "oomproof" / part, folder / part)
    (folder / PROGRAM.with_name("liboomproof_vgpu.so").name).symlink_to(PROGRAM.with_name("liboomproof_vgpu.so"))
    file = folder / "levers" / "effects.py"
    text = file.read_text()
    assert FINE in text
    file.write_text(text.replace(FINE, FINE + "        [][len(self._sizes)]\n"))
    return str(folder)


FINE = """    def _settle(self) -> None:
        \"""Divides the gradients by what was really counted.\"""
"""
BROKEN = {
    part: Program(script, options=("--gpu", "h100", "--plan", "plan.toml"),
                  files={"plan.toml": f"schema = 1\n[[lever]]\n{PLANS['micro']}\n"},
                  environment={"OOMPROOF_RESOURCES": broken()} if part == "lever" else {})
    for part, script in {"lever": SCRIPT, "script": SCRIPT.replace("    optimizer.step()", "    [][len(tokens)]")}.items()
}  # fmt: skip


def test_a_failure_in_the_code_of_a_lever_names_the_lever() -> None:
    done = BROKEN["lever"].result()
    assert done.code == 4 and "`micro-batch`: it failed with IndexError: list index out of range" in done.err


def test_a_failure_of_the_script_names_no_lever() -> None:
    done = BROKEN["script"].result()
    assert done.code == 3 and "`micro-batch`" not in done.err


@pytest.mark.parametrize("name", PAIRS)
def test_takes_what_the_edit_takes(name: str) -> None:
    plan, edit = (program.result() for program in PAIRS[name])
    assert (plan.code, edit.code) == (0, 0), plan.err + edit.err
    # Weights of the loss and the like are a few small blocks.
    assert plan.peak["allocated_bytes"] == pytest.approx(edit.peak["allocated_bytes"], abs=64 << 10)
    assert plan.verdict["steps_measured"] == edit.verdict["steps_measured"]


def test_what_is_reserved_may_settle_later_under_a_plan() -> None:
    assert CUT.result().verdict["steps_measured"] == 8
    assert PLAIN.result().verdict["steps_measured"] == 3


def test_saves_what_it_is_for() -> None:
    plain = PLAIN.result().peak["allocated_bytes"]
    assert PAIRS["micro"][0].result().peak["allocated_bytes"] < PAIRS["checkpoint"][0].result().peak["allocated_bytes"]
    assert PAIRS["checkpoint"][0].result().peak["allocated_bytes"] < plain


def test_the_facts_of_a_run_change_nothing_in_it() -> None:
    plain, probed = PLAIN.result(), PROBED.result()
    for name in ("allocated_bytes", "reserved_bytes"):
        assert probed.peak[name] == plain.peak[name]
    text = (probed.folder / "facts.oomprofile").read_bytes()
    facts = json.JSONDecoder().raw_decode(text[text.index(b'{"kind": "plan_facts"') :].decode(errors="replace"))[0]
    assert (
        facts["points"]["step_peak"]
        == {"allocated": plain.results["peak"]}
        == {"allocated": plain.peak["allocated_bytes"]}
    )
    assert [block["path"] for block in facts["blocks"]] == [f"blocks.{number}" for number in range(4)]
    # The input of the second layer and that of the activation; 2048 tokens of 2048 numbers.
    saved = [block["saved_bytes"] for block in facts["blocks"]]
    # A block that is less than 1 MiB larger than what is asked for is handed out whole.
    assert min(saved) == 2 * 2048 * 2048 * 4 and max(saved) < min(saved) + (2 << 20)
    assert (
        facts["loss"]["linear"] == "head"
        and facts["step_ns"] > sum(block["forward_ns"] for block in facts["blocks"]) > 0
    )


def test_one_that_does_not_match_is_refused() -> None:
    done = REFUSED.result()
    assert done.code == 4 and "the model has no module `layers.0`" in done.err
