"""A run that is forked from a script that waits is the run of a process of its own, to the byte.

The tests play the launcher: they take the settings of a run from its profile, start the script so that it waits, and
ask for the same run.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get("OOMPROOF_BIN", str(ROOT / "target" / "release" / "oomproof"))
PYTHON = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)

# What it does before it uses the device: random numbers of three kinds, files, the question how many devices there are.
SCRIPT = """
import os, random, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
random.seed(3), torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
os.makedirs("kept", exist_ok=True)
os.chdir("kept")
log = open("log.txt", "w")
log.write(str(torch.cuda.device_count()))
data = TensorDataset(torch.randn(320, 256), torch.randint(0, 10, (320,)))
model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(3)], nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters())
model.to(device)
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=16, shuffle=True):
        n = random.randint(1, 4)
        loss = nn.functional.cross_entropy(model(x.to(device).repeat(n, 1)), y.to(device).repeat(n))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
with torch.no_grad():
    model.eval()(torch.randn(64, 256, device=device))
torch.save(model.state_dict(), "model.pt")
print("kept", sorted(os.listdir(".")))
"""
PLAN = """
schema = 1
[[lever]]
name = "optimizer-implementation"
implementation = "fused"
[[lever]]
name = "micro-batch"
chunks = 2
"""
# Kinds of records, of which all but the first three begin with a time.
TEXT, SITE, MODULE, ALLOC, FREE, DRIVER, LABEL, TOUCH, UNKNOWN_READ, NOTE = 1, 2, 3, 4, 5, 6, 8, 9, 10, 14
# Where a run keeps its things, and whether it waited.
OF_ONE_RUN = ("run_dir", "scratch", "warm")

Records = List[Tuple[int, bytes]]


def records(profile: Path) -> Records:
    """All records of a profile, without what no two runs have in common: times, and where device memory begins."""
    data = profile.read_bytes()
    end, at = struct.unpack_from("<Q", data, 16)[0], 4096
    found = []
    while at < end:
        kind, length = struct.unpack_from("<HxxI", data, at)
        found.append((kind, data[at + 8 : at + 8 + length]))
        at += 8 + length
    start = min(struct.unpack_from("<Q", payload, 8)[0] for kind, payload in found if kind == DRIVER)
    return [(kind, _plain(kind, payload, start)) for kind, payload in found]


def _plain(kind: int, payload: bytes, start: int) -> bytes:
    if kind not in (TEXT, SITE, MODULE):
        payload = payload[8:]
    if kind in (ALLOC, FREE, DRIVER, LABEL, TOUCH, UNKNOWN_READ):
        payload = struct.pack("<q", struct.unpack_from("<Q", payload)[0] - start) + payload[8:]
    if kind == NOTE:
        note = json.loads(payload)
        if note["kind"] == "settings":
            note["settings"] = {key: each for key, each in note["settings"].items() if key not in OF_ONE_RUN}
        if note["kind"] == "process":
            assert note["parent"] > 0 and abs(note["started_unix_nanos"] - time.time_ns()) < 600 * 10**9
            note = {"kind": "process"}
        payload = json.dumps(note, sort_keys=True).encode()
    return payload


def notes(profile: Path, kind: str) -> List[Dict[str, Any]]:
    found = [json.loads(payload) for number, payload in records(profile) if number == NOTE]
    return [note for note in found if note["kind"] == kind]


class Waiting:
    """A script that waits, and runs that are forked from it."""

    def __init__(self, home: Path, settings: Dict[str, Any]) -> None:
        self._home = home
        self._settings = settings
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(home / "socket"))
            listener.listen()
            listener.settimeout(60)
            warm = {"socket": str(home / "socket"), "launcher": os.getpid()}
            run = self._folder("waiting", warm=warm, plan=None)
            agent = ROOT / "python" / "oomproof" / "agent"
            environment = {**os.environ, "OOMPROOF_RUN": str(run), "PYTHONPATH": str(agent)}
            command = [*settings["command"]]
            self.process = subprocess.Popen(command, cwd=settings["cwd"], env=environment, stdout=subprocess.DEVNULL)
            self._connection, _ = listener.accept()
        self._connection.settimeout(60)
        self._lines = self._connection.makefile("r")
        self.said: List[Dict[str, Any]] = [self._line()]

    def _folder(self, name: str, **different: Any) -> Path:
        folder = self._home / name
        for part in ("profiles", "scratch"):
            (folder / part).mkdir(parents=True)
        settings = {**self._settings, "warm": None, **different}
        settings.update(run_dir=str(folder / "profiles"), scratch=str(folder / "scratch"))
        (folder / "run.json").write_text(json.dumps(settings))
        return folder / "run.json"

    def _line(self) -> Dict[str, Any]:
        line: Dict[str, Any] = json.loads(self._lines.readline())
        return line

    def ask(self, number: int, **different: Any) -> None:
        run = self._folder(f"child-{number}", **different)
        request = {"id": number, "run": str(run), "output": str(run.with_name("output.txt"))}
        self._connection.sendall(json.dumps(request).encode() + b"\n")

    def ended(self, count: int) -> Dict[int, Dict[str, Any]]:
        ended: Dict[int, Dict[str, Any]] = {}
        while len(ended) < count:
            line = self._line()
            if "started" not in line:
                ended[line["id"]] = line
        return ended

    def profile(self, number: int) -> Path:
        (found,) = (self._home / f"child-{number}" / "profiles").glob("*.oomprofile")
        return found

    def output(self, number: int) -> str:
        return (self._home / f"child-{number}" / "output.txt").read_text()

    def leave(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
        self._lines.close()
        self._connection.close()


@pytest.fixture(scope="module")
def anew(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile of a run of its own under the plan."""
    home = tmp_path_factory.mktemp("anew")
    (home / "train.py").write_text(textwrap.dedent(SCRIPT))
    (home / "plan.toml").write_text(PLAN)
    profile = home / "run.oomprofile"
    command = [PROGRAM, "run", "--gpu", "rtx-4090", "--python", PYTHON, "--plan", "plan.toml", "--json"]
    done = subprocess.run([*command, "--profile", str(profile), "train.py"], cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return profile


@pytest.fixture(scope="module")
def waiting(anew: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waiting]:
    (settings,) = notes(anew, "settings")
    waiting = Waiting(tmp_path_factory.mktemp("w"), settings["settings"])
    yield waiting
    waiting.process.kill()
    waiting.process.wait()


def test_forked_runs_are_runs_of_their_own(anew: Path, waiting: Waiting) -> None:
    assert waiting.said == [{"ready": waiting.process.pid}]
    (settings,) = notes(anew, "settings")
    device, context = settings["settings"]["device"], settings["settings"]["context_bytes"]["likely"]
    waiting.ask(1, plan=settings["settings"]["plan"])
    waiting.ask(2, plan=None, device={**device, "total_bytes": context + (8 << 20)})
    ended = waiting.ended(2)
    assert ended[1]["exit_code"] == 0, waiting.output(1)
    assert "kept ['log.txt', 'model.pt']" in waiting.output(1)

    # A lever acts at once in both, but the one has been importing and the other has been waiting by then.
    def without_place(every: Records) -> Tuple[Records, int]:
        kept = [each for each in every if not (each[0] == NOTE and b'"plan_applied"' in each[1])]
        return kept, len(every) - len(kept)

    alone, forked = without_place(records(anew)), without_place(records(waiting.profile(1)))
    differ = [pair for pair in zip(alone[0], forked[0]) if pair[0] != pair[1]]
    assert differ == [] and alone == forked
    assert alone[1] == 1
    # The other one has no plan, and a card on which the context leaves too little.
    assert ended[2]["exit_code"] == 1
    assert "CUDA out of memory" in waiting.output(2)
    assert notes(waiting.profile(2), "plan_applied") == []


def test_a_child_that_is_killed_takes_nobody_along(waiting: Waiting) -> None:
    waiting.ask(3, plan=None)
    line = waiting._line()
    os.killpg(line["started"], 9)
    assert waiting.ended(1)[3] == {"id": 3, "exit_code": None, "signal": 9}
    assert waiting.process.poll() is None


def test_it_ends_when_nobody_asks_any_more(waiting: Waiting) -> None:
    waiting.ask(4, plan=None)
    child = waiting._line()["started"]
    waiting.leave()
    assert waiting.process.wait(timeout=30) == 0
    # It is nobody's child by then, and whoever takes it over may be slow to bury it.
    deadline = time.monotonic() + 10
    while _lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")
