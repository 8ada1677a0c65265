"""Runs many variants of scripts in one process on a virtual card: imports once, then a forked child for each.

    oomproof run --full --no-labels --memory 1TiB warm.py FILE

FILE is a JSON list of {name, script, arguments, answer, limit_bytes, rows, gradients, compare_with, in_double,
timeout_secs}. One line of JSON for each goes to standard error behind a mark. `limit_bytes` is what PyTorch's allocator
may reserve; it behaves at this limit as at the end of the card.
"""

from __future__ import annotations

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

MARK = "VARIANT"
#: What the driver hands out multiples of.
PAGE = 1 << 21
#: What a tool that is asked something writes before its answer.
ANSWER = "ANSWER"


def run_child(job: dict[str, Any], pipe: int) -> None:
    """Becomes the script; never returns."""
    os.setsid()
    os.dup2(pipe, 1)
    os.dup2(pipe, 2)
    import torch

    torch.set_num_threads(1)
    os.chdir(tempfile.mkdtemp())
    said: dict[str, Any] = {"ended": "ok"}
    watch = None
    try:
        import watch as watching

        if job.get("in_double"):
            # Sums in another order then differ in digits that no comparison looks at, however training amplifies them.
            torch.set_default_dtype(torch.float64)
            torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
        paths = {name: Path(job[name]) if job.get(name) else None for name in ("gradients", "compare_with")}
        watch = watching.Watch(rows=job.get("rows", True), **paths)
        import applied
        from tools.outermost import at_first_forward

        if job.get("limit_bytes"):
            # Not before: the first call of CUDA ends the time in which a plan may choose how the allocator works.
            at_first_forward(lambda *_: limit(job["limit_bytes"]))
        sys.argv = ["applied.py", json.dumps(job["answer"]), job["script"], *job["arguments"]]
        applied.main()
    except SystemExit as ended:
        if ended.code not in (None, 0):
            said["ended"] = f"exit {ended.code}"
    except torch.OutOfMemoryError:
        said["ended"] = "out of memory"
    except BaseException as error:  # noqa: BLE001 - it is said, and the child ends.
        traceback.print_exc()
        said["ended"] = f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"
    if watch is not None:
        said.update(watch.report())
    sys.stdout.flush()
    sys.stderr.write(f"\n{MARK}{json.dumps(said)}\n")
    sys.stderr.flush()
    os._exit(0)


def limit(reserved_bytes: int) -> None:
    """Takes so much of the card that PyTorch's allocator may reserve this and no more.

    A fraction set in the allocator would be another limit: where segments grow, it counts what lies free at the end of
    one a second time.
    """
    import ctypes

    import torch

    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")
    left = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()
    pages = reserved_bytes // PAGE * PAGE
    taken = left - pages - left % PAGE
    if taken > 0 and runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(taken)):
        raise RuntimeError("the card has less than was to be left")


def wait(pid: int, pipe: int, timeout_secs: float) -> tuple[str, bool]:
    """The output of a child, and whether it ended by itself."""
    ends, pieces, in_time = time.monotonic() + timeout_secs, [], False
    while (left := ends - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        piece = os.read(pipe, 1 << 16)
        if not piece:
            in_time = True
            break
        pieces.append(piece)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(pid, 0)
    return b"".join(pieces).decode(errors="replace"), in_time


def main() -> None:
    """All jobs in turn."""
    listed = json.loads(Path(sys.argv[1]).read_text())
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    for name in listed["imports"]:
        __import__(name)
    for job in listed["jobs"]:
        began = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        reads, writes = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reads)
            run_child(job, writes)
        os.close(writes)
        text, in_time = wait(pid, reads, job.get("timeout_secs", 120))
        os.close(reads)
        lines = text.splitlines()
        found = [json.loads(line[len(MARK) :]) for line in lines if line.startswith(MARK)]
        said = found[-1] if found else {"ended": "no answer" if in_time else "time is up"}
        said |= {"name": job["name"], "seconds": round(time.monotonic() - began, 1)}
        for line in lines:
            if line.startswith(ANSWER):
                said["answer"] = json.loads(line[len(ANSWER) :])
        if said["ended"] != "ok":
            said["last_lines"] = [line for line in lines if not line.startswith(MARK)][-15:]
        sys.stderr.write(f"\n{MARK}{json.dumps(said)}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
