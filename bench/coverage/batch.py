"""Counts many scripts in one run: what they import is imported once, then each script is a forked child.

    python batch.py FILE

FILE is a JSON list of {name, script, arguments, optimizers_only, timeout_secs}. One line of JSON for each goes to
standard error behind a mark. On a slow machine most of the time of a small script is that of its imports.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

MARK = "BATCH"
# Nothing here may touch the device, or the children could not.
FIRST = (
    "numpy",
    "scipy.optimize",
    "torch",
    "torchvision",
    "torch._dynamo",
    "transformers.modeling_utils",
    "transformers.trainer",
    "transformers.generation",
    "accelerate",
    "datasets",
    "peft",
    "trl",
    "timm",
    "diffusers",
    "lightning",
    "torch_geometric",
)


def capability() -> tuple[int, int]:
    """The device's, asked by a child, because who asks cannot fork afterwards."""
    import torch

    reads, writes = os.pipe()
    if os.fork() == 0:
        os.write(writes, bytes(torch.cuda.get_device_capability()) if torch.cuda.is_available() else b"\0\0")
        os._exit(0)
    os.wait()
    major, minor = os.read(reads, 2)
    return major, minor


def import_first() -> None:
    """Imports what many scripts import; libraries that ask for the device meanwhile are told what it is."""
    import torch
    import torch.utils._triton

    known = capability()
    asked = torch.cuda.get_device_capability
    torch.cuda.get_device_capability = lambda device=None: known
    torch.utils._triton.has_triton = lambda **options: known >= (7, 0)
    for name in FIRST:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a script that needs it will say so.
            sys.stderr.write(f"{name}: {error}\n")
        if torch.cuda.is_initialized():
            sys.exit(f"{name} uses the device when it is imported")
    torch.cuda.get_device_capability = asked


def run_child(job: dict[str, Any], pipe: int) -> None:
    """Becomes the script; never returns."""
    os.setsid()
    os.dup2(pipe, 1)
    os.dup2(pipe, 2)
    code = 0
    try:
        os.chdir(tempfile.mkdtemp())
        options = ["--optimizers-only"] if job["optimizers_only"] else []
        sys.argv = ["census.py", *options, job["script"], *job["arguments"]]
        import census

        census.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - it is said, and the child ends.
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def wait(pid: int, pipe: int, timeout_secs: float) -> tuple[str, int | None]:
    """The output of a child and its exit code, or none where it was stopped."""
    ends, pieces = time.monotonic() + timeout_secs, []
    while (left := ends - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        piece = os.read(pipe, 1 << 16)
        if not piece:
            break
        pieces.append(piece)
    stopped = time.monotonic() >= ends
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    _, status = os.waitpid(pid, 0)
    return b"".join(pieces).decode(errors="replace"), None if stopped else os.waitstatus_to_exitcode(status)


def main() -> None:
    """All scripts in turn."""
    jobs = json.loads(Path(sys.argv[1]).read_text())
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import_first()
    for job in jobs:
        began = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reads)
            run_child(job, writes)
        os.close(writes)
        text, code = wait(pid, reads, job["timeout_secs"])
        os.close(reads)
        lines = text.splitlines()
        counts = [json.loads(line[6:]) for line in lines if line.startswith("CENSUS")]
        said = {
            "name": job["name"],
            "census": counts,
            "exit_code": code,
            "seconds": round(time.monotonic() - began, 1),
            "last_lines": [line for line in lines if not line.startswith("CENSUS")][-40:],
        }
        sys.stderr.write(f"\n{MARK}{json.dumps(said)}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
