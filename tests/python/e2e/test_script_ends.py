"""However a script ends: its exit code, a verdict, a profile that others can read, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any, Dict, List, Optional, Tuple

import pytest
from virtual_run import Program, gpus_for

STEPS = """
import signal, time
import torch
def train(steps):
    model = torch.nn.Linear(256, 256).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(8, 256).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
def ready():
    sys.stdout.flush()
    os.write(1, f"\\nREADY {os.getpid()}\\n".encode())
"""
T4 = ("--gpu", "t4")


def kill_script(number: int) -> Any:
    return lambda process, script: os.kill(script, number)


def interrupt_group(process: subprocess.Popen[bytes], _script: int) -> None:
    os.killpg(process.pid, signal.SIGINT)


def end_program(process: subprocess.Popen[bytes], _script: int) -> None:
    process.send_signal(signal.SIGTERM)


# The wait for something new after a steady peak is longer than a test may take.
IMPATIENT = "import _oomproof_agent.course\n_oomproof_agent.course.PATIENCE = 0.5\n"
WAIT = STEPS + "train(2)\nready()\ntime.sleep(100)\n"
AGAIN = """
torch.ones(3).cuda()
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv])
train(2)
"""
LEAVES = """
import subprocess, multiprocessing
def forever():
    time.sleep(1000)
child = multiprocessing.get_context("fork").Process(target=forever)
child.start()
subprocess.Popen(["sleep", "1000"], start_new_session=True)
"""

PROGRAMS: Dict[str, Program] = {
    "return": Program(STEPS + "train(2)\n", T4),
    "steady": Program(STEPS + IMPATIENT + "train(1000000)\n", T4),
    "sys.exit": Program(STEPS + "train(2)\nsys.exit(3)\n", T4),
    "sys.exit text": Program(STEPS + "train(2)\nsys.exit('no data left')\n", T4),
    "os._exit": Program(STEPS + "train(2)\nos._exit(4)\n", T4),
    "exec": Program(STEPS + "train(2)\nos.execv('/bin/sh', ['sh', '-c', 'echo replaced; exit 5'])\n", T4),
    "exec itself": Program(STEPS + AGAIN, T4),
    "starts another": Program(
        "import subprocess\nsys.exit(subprocess.run([sys.executable, 'other.py']).returncode)\n",
        T4,
        files={"other.py": "import os, sys" + STEPS + "train(2)\n"},
    ),
    "exception": Program(STEPS + "train(2)\nraise ValueError('bad row')\n", T4),
    "term": Program(WAIT, T4, when_ready=kill_script(signal.SIGTERM)),
    "kill": Program(WAIT, T4, when_ready=kill_script(signal.SIGKILL)),
    "segv": Program(STEPS + "train(2)\nimport ctypes\nctypes.string_at(0)\n", T4),
    "ctrl-c": Program(WAIT, T4, when_ready=interrupt_group),
    "program term": Program(WAIT, T4, when_ready=end_program),
    "endless": Program(STEPS + "torch.ones(5).cuda()\nwhile True:\n    time.sleep(0.01)\n", [*T4, "--timeout", "12s"]),
    "endless training": Program(
        STEPS + "train(1)\nwhile True:\n    time.sleep(0.01)\n", [*T4, "--timeout", "20s", "--full"]
    ),
    "no steps": Program(STEPS + "x = torch.ones(1000, device='cuda')\n", T4),
    "no device": Program("import torch\nprint(torch.ones(3).sum())\n", T4),
    "leaves": Program(STEPS + LEAVES + "train(2)\nos._exit(0)\n", T4),
    "steady leaves": Program(STEPS + IMPATIENT + LEAVES + "train(1000000)\n", T4),
    "steps": Program(STEPS + "train(1000000)\n", [*T4, "--steps", "7"]),
}

CASES: List[Tuple[str, int, str, Optional[str], Tuple[Optional[int], Optional[int]]]] = [
    # how, exit code of the program, verdict, reason, the script's exit code and signal
    ("return", 0, "fits", None, (0, None)),
    ("steady", 0, "fits", None, (0, None)),
    ("sys.exit", 3, "unknown", "script_failed", (3, None)),
    ("sys.exit text", 3, "unknown", "script_failed", (1, None)),
    ("os._exit", 3, "unknown", "script_failed", (4, None)),
    ("exec", 3, "unknown", "script_failed", (5, None)),
    ("exec itself", 0, "fits", None, (0, None)),
    ("starts another", 0, "fits", None, (0, None)),
    ("exception", 3, "unknown", "script_failed", (1, None)),
    ("term", 3, "unknown", "signal", (None, 15)),
    ("kill", 3, "unknown", "signal", (None, 9)),
    ("segv", 3, "unknown", "signal", (None, 11)),
    ("ctrl-c", 130, "unknown", "interrupted", (None, 2)),
    ("program term", 130, "unknown", "interrupted", (None, 15)),
    ("endless", 11, "unknown", "timed_out", (None, 15)),
    ("endless training", 11, "unknown", "timed_out", (None, 15)),
    ("no steps", 11, "unknown", "nothing_measured", (0, None)),
    ("no device", 11, "unknown", "device_unused", (0, None)),
    ("leaves", 0, "fits", None, (0, None)),
    ("steady leaves", 0, "fits", None, (0, None)),
    ("steps", 0, "fits", None, (0, None)),
]


@pytest.mark.parametrize(("how", "code", "verdict", "reason", "script"), CASES, ids=[case[0] for case in CASES])
def test_every_end_has_a_verdict_and_a_profile(
    how: str, code: int, verdict: str, reason: Optional[str], script: Tuple[Optional[int], Optional[int]]
) -> None:
    finished = PROGRAMS[how].result()
    found = finished.verdict
    assert (finished.code, found["verdict"], finished.reasons()[:1]) == (code, verdict, [reason] if reason else [])
    assert (found["script"]["exit_code"], found["script"]["signal"]) == script
    assert gpus_for(found["profile"])


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("exception", "ValueError: bad row"),
        ("sys.exit text", "no data left"),
        ("exec", "replaced"),
        ("ctrl-c", "KeyboardInterrupt"),
    ],
)
def test_the_script_s_last_words_arrive(how: str, text: str) -> None:
    assert text in PROGRAMS[how].result().err


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("exception", "ValueError: bad row"),
        ("endless", "the end of the first training step"),
        ("endless training", "1 step"),
        ("sys.exit", "3"),
        ("term", "15"),
    ],
)
def test_the_reason_says_what_happened(how: str, text: str) -> None:
    assert text in PROGRAMS[how].result().verdict["reasons"][0]["text"]


@pytest.mark.parametrize(
    ("how", "steps"),
    [
        ("return", 2),
        ("sys.exit", 2),
        ("os._exit", 2),
        ("kill", 2),
        ("exec", 2),
        ("steps", 7),
        ("exec itself", 2),
        ("starts another", 2),
    ],
)
def test_what_was_seen_is_kept(how: str, steps: int) -> None:
    finished = PROGRAMS[how].result()
    assert finished.verdict["steps_measured"] == steps
    # The parameters, their gradients and a batch: less cannot have been seen.
    assert finished.peak["allocated_bytes"] > 2 * 256 * 256 * 4
