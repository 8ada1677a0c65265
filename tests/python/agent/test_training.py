"""Phases, modules, source lines and steps of small training scripts on the CPU."""

from __future__ import annotations

import pytest

PRELUDE = """
import ctypes, os, torch
from torch import nn
import _oomproof_agent.course as course
course.PATIENCE = course.AGAIN = 0.0
fake = ctypes.CDLL(os.environ["FAKE"])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)
    def forward(self, x):
        return self.head(self.body(x))
net = Net()
opt = torch.optim.AdamW(net.parameters())
def peaks(allocated, reserved=1 << 20):
    fake.fake_counter(6, ctypes.c_uint64(allocated)); fake.fake_counter(7, ctypes.c_uint64(reserved))
    fake.fake_counter(8, ctypes.c_uint64(1))
def step(accumulate=1):
    for _ in range(accumulate):
        loss = nn.functional.mse_loss(net(torch.randn(3, 4)), torch.randn(3, 2))
        loss.backward()
    opt.step(); opt.zero_grad()
"""


@pytest.fixture
def run(run):
    return lambda script, **settings: run(PRELUDE + script, **settings)


def test_phases_of_two_steps(run):
    done = run("step(); step()\n", full=True)
    assert done.code == 0, done.err
    # forward 1, backward 2, optimizer 3, idle 6
    assert done.of("phase") == [
        "1 1", "2 1", "6 1", "3 1", "6 1", "6 2",
        "1 2", "2 2", "6 2", "3 2", "6 2", "6 3",
    ]  # fmt: skip
    assert done.of("step") == ["1", "2"]


def test_micro_batches_belong_to_a_step(run):
    done = run("step(accumulate=4)\n", full=True)
    assert done.of("step") == ["1"]


def test_modules_have_paths_and_classes(run):
    done = run("step()\n", full=True)
    modules = {line.split(" ", 1)[1] for line in done.of("module")}
    assert {"- Net", "body Sequential", "body.0 Linear", "body.1 ReLU", "head Linear"} <= modules


def test_the_module_word_follows_the_innermost(run):
    script = """
seen = []
net.body[1].register_forward_hook(lambda *_: seen.append(fake.fake_word(1)))
net.head.register_forward_pre_hook(lambda *_: seen.append(fake.fake_word(1)))
net(torch.randn(3, 4))
print(len(set(seen)), min(seen) > 0, fake.fake_word(1))
"""
    assert run(script, full=True).out == "2 True 0\n"


def test_an_error_in_forward_restores_the_module(run):
    script = """
try:
    net(torch.randn(3, 5))
except RuntimeError:
    print(fake.fake_word(1))
"""
    assert run(script, full=True).out == "0\n"


def test_source_lines_are_the_scripts_own(run):
    script = "a = torch.ones(3)\nb = nn.functional.softmax(a, dim=0)\n"
    done = run(script, full=True)
    lines = (PRELUDE + script).splitlines()
    expected = {
        f"script.py:{lines.index(text) + 1}" for text in ("a = torch.ones(3)", "b = nn.functional.softmax(a, dim=0)")
    }
    found = {line.split()[1].rsplit("/", 1)[1] for line in done.of("site")}
    assert expected <= found
    assert not [line for line in done.of("site") if "/torch/" in line]


def test_stops_by_itself(run):
    done = run("for a in (10, 20, 20, 20): peaks(a << 20); step()\nprint('not reached')\n")
    assert done.note("stop") == {"kind": "stop", "reason": "steady", "step": 3}
    assert (done.code, done.out) == (0, "")
    assert done.of("step") == ["1", "2", "3"]
    assert "exit" not in done.kinds()


def test_stops_after_the_steps_asked_for(run):
    done = run("peaks(1 << 20)\nfor _ in range(9): step()\n", steps=5)
    assert done.note("stop") == {"kind": "stop", "reason": "steps", "step": 5}


def test_a_script_that_stays_on_the_cpu_is_left_alone(run):
    done = run("for _ in range(9): step()\nprint('end')\n")
    assert (done.out, done.kinds()) == ("end\n", ["python", "exit"])


def test_waits_for_an_optimizer_that_has_not_stepped(run):
    script = """
late = torch.optim.SGD(net.parameters())
peaks(1 << 20)
for number in range(20):
    step()
    if number == 5: late.step()
"""
    assert run(script).note("stop")["step"] == 7


def test_training_without_an_optimizer_counts_backward_passes(run):
    script = """
del opt
peaks(1 << 20)
for _ in range(9): net(torch.randn(3, 4)).sum().backward()
"""
    assert run(script).note("stop") == {"kind": "stop", "reason": "steady", "step": 3}


def test_inference_counts_forward_passes(run):
    script = """
del opt
peaks(1 << 20)
net.eval()
with torch.no_grad():
    for _ in range(99): net(torch.randn(3, 4))
"""
    done = run(script)
    assert done.note("stop") == {"kind": "stop", "reason": "steady", "step": 9}
    assert done.of("phase")[0] == "4 0"


def test_without_labels_only_steps_and_ends(run):
    done = run("for _ in range(3): peaks(1 << 20); step()\n", labels=False)
    assert done.note("stop")["step"] == 3
    assert not done.of("site") and not done.of("module") and not done.of("label")


def test_saving_is_a_phase(run):
    done = run("import io\nstep()\ntorch.save(net.state_dict(), io.BytesIO())\n", full=True)
    assert done.of("phase")[-2:] == ["5 2", "6 2"]


def test_compiling_takes_modes_and_hooks_away(run):
    script = """
from torch.nn.modules import module
from torch.overrides import _get_current_function_mode_stack as modes
before = len(modes()), len(module._global_forward_pre_hooks)
torch.compile(net)
print(before, len(modes()), len(module._global_forward_pre_hooks))
"""
    done = run(script, full=True)
    assert done.out == "(1, 1) 0 0\n"
    assert done.note("compile")["what"] == "torch.compile"


UNCHANGED = [
    ("torch.set_default_device('meta'); print(torch.ones(2).device); torch.set_default_device(None)", "meta"),
    ("print(torch.ones(2).device)", "cpu"),
    ("with torch.device('meta'): a = torch.ones(2)\nprint(a.device, torch.ones(2).device)", "meta cpu"),
    ("f = torch.jit.script(nn.Linear(4, 2)); print(f(torch.ones(1, 4)).shape)", "torch.Size([1, 2])"),
    ("f = torch.jit.trace(net, torch.ones(1, 4)); print(f(torch.ones(1, 4)).shape)", "torch.Size([1, 2])"),
    ("print(torch.func.vmap(lambda x: x * 2)(torch.ones(3)).sum().item())", "6.0"),
    ("print(torch.autograd.grad((p := torch.ones(2, requires_grad=True)).sum(), p)[0].tolist())", "[1.0, 1.0]"),
    ("import copy, pickle; pickle.dumps(copy.deepcopy(net.state_dict())); print('ok')", "ok"),
    ("from torch.overrides import TorchFunctionMode as T\nclass M(T):\n  def __torch_function__(self, f, t, a=(), k=None): return 5\nwith M(): print(torch.ones(2))\nprint(len(torch.ones(2)))", "5\n2"),
    ("with torch.device('meta'):\n  torch.compile(net); a = torch.ones(2)\nprint(a.device, torch.ones(2).device)", "meta cpu"),
    ("print(torch.compile(lambda x: x + 1, backend='eager', fullgraph=True)(torch.ones(2)).tolist())", "[2.0, 2.0]"),
    ("print(torch.compile(net, backend='eager', fullgraph=True)(torch.ones(1, 4)).shape)", "torch.Size([1, 2])"),
]  # fmt: skip


def test_the_script_sees_no_difference(run):
    script = "\n".join(code for code, _ in UNCHANGED)
    done = run(script, full=True)
    assert (done.out.splitlines(), done.code) == ("\n".join(out for _, out in UNCHANGED).splitlines(), 0), done.err


def test_a_checkpointed_part_is_labeled_when_computed_again(run):
    script = """
from torch.utils.checkpoint import checkpoint
seen = []
net.head.register_forward_pre_hook(lambda *_: seen.append((fake.fake_word(1) > 0, fake.fake_word(2))))
checkpoint(net, torch.randn(3, 4), use_reentrant=False).sum().backward()
print(seen)
"""
    assert run(script, full=True).out == "[(True, 1), (True, 2)]\n"


def test_lbfgs_closures_alternate_phases(run):
    script = """
opt = torch.optim.LBFGS(net.parameters(), max_iter=1)
def closure():
    loss = net(torch.randn(3, 4)).sum(); loss.backward(); return loss
opt.step(closure)
"""
    done = run(script, full=True)
    assert done.of("phase") == ["3 0", "1 1", "2 1", "3 1", "6 1", "6 2"]


def test_a_caught_out_of_memory_error_is_told_once(run):
    script = """
def gives_up(*_):
    fake.fake_counter(11, ctypes.c_uint64(1))
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    backward = staticmethod(gives_up)
x = torch.ones(2, requires_grad=True)
try:
    Op.apply(x).sum().backward()
except torch.OutOfMemoryError as error:
    print(error)
step()
"""
    done = run(script, full=True)
    assert done.out == "CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    oom = done.note("oom")
    # The innermost line outside of PyTorch, here the one that raised.
    line = next(number for number, text in enumerate((PRELUDE + script).splitlines(), start=1) if "raise torch" in text)
    assert (oom["phase"], oom["step"]) == ("backward", 1)
    assert oom["file"].endswith("script.py")
    assert (oom["function"], oom["line"]) == ("gives_up", line)
    assert done.note("oom_survived")["count"] == 1


def test_a_traceback_shows_no_frame_of_the_agent(run):
    done = run(
        "import torch\n\ntry:\n    torch.zeros(2) + torch.zeros(3)\nexcept RuntimeError:\n    torch.zeros(2) @ torch.zeros(3)\n"
    )
    assert done.code == 1
    assert "During handling" in done.err
    assert "script.py" in done.err
    assert "_oomproof_agent" not in done.err
