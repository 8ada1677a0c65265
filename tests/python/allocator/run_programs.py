"""Runs programs of requests on PyTorch's own allocator and writes down everything that it says.

A script for `oomproof run --full --allow-writes`: `run_programs.py PROGRAMS RECORDS`, both one line of JSON a program.
Each program has a process of its own, because the allocator has no way back to its beginning. `cargo xtask allocator`
makes the programs and compares the records with the crate `oomproof-allocator`.

With `OOMPROOF_LAG` naming the library of `lag.c`, loaded before all others, programs can keep streams from finishing.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from typing import Any, Dict, List

import torch

OutOfMemory = torch.OutOfMemoryError if hasattr(torch, "OutOfMemoryError") else torch.cuda.OutOfMemoryError


class Run:
    """One program in this process."""

    def __init__(self, program: Dict[str, Any]) -> None:
        self.program = program
        if program["settings"]:
            torch.cuda.memory._set_allocator_settings(program["settings"])
        torch.cuda.init()
        self.runtime = ctypes.CDLL(None)
        self.streams = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(program["streams"] - 1)]
        self.held: Dict[int, torch.Tensor] = {}
        self.pools: Dict[int, Any] = {}
        self.lag = ctypes.CDLL(os.environ["OOMPROOF_LAG"]) if "OOMPROOF_LAG" in os.environ else None

    def record(self) -> Dict[str, Any]:
        """Everything that the allocator said."""
        free = torch.cuda.mem_get_info()[0]
        if self.program["free"] < free:
            self._take(free - self.program["free"])
        first = self._take(2 << 20)
        self.runtime.cudaFree(ctypes.c_void_p(first))
        free, total = torch.cuda.mem_get_info()
        torch.cuda.memory._record_memory_history("all", context=None, max_entries=1_000_000)
        outcomes = [self._outcome(*step) for step in self.program["steps"]]
        return {
            "torch": torch.__version__,
            "first_address": first,
            "free": free,
            "total": total,
            "streams": [[stream.cuda_stream, stream.stream_id] for stream in self.streams],
            "outcomes": outcomes,
        }

    def _take(self, size: int) -> int:
        address = ctypes.c_void_p()
        failed = self.runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size))
        assert failed == 0 and address.value is not None, failed
        return address.value

    def _outcome(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self, "do_" + name)(*arguments)
        except OutOfMemory as error:
            return {"oom": str(error)}
        except (RuntimeError, ValueError) as error:
            return {"error": str(error).splitlines()[0]}

    def do_alloc(self, slot: int, size: int, stream: int) -> int:
        torch.cuda.set_stream(self.streams[stream])
        # A local name would outlive an error with its traceback.
        self.held[slot] = torch.empty(size, dtype=torch.uint8, device="cuda")
        return self.held[slot].data_ptr()

    def do_free(self, slot: int) -> None:
        self.held.pop(slot, None)

    def do_record(self, slot: int, stream: int) -> None:
        if slot in self.held:
            self.held[slot].record_stream(self.streams[stream])

    def do_empty(self) -> None:
        torch.cuda.empty_cache()

    def do_settings(self, text: str) -> None:
        torch.cuda.memory._set_allocator_settings(text)

    def do_fraction(self, fraction: float) -> None:
        torch.cuda.set_per_process_memory_fraction(fraction)

    def do_finished(self, is_finished: bool) -> None:
        assert self.lag is not None
        self.lag.oomproof_lag(int(not is_finished))

    def do_reset(self, which: str) -> None:
        getattr(torch.cuda, f"reset_{which}_memory_stats")()

    def do_mempool(self, pool: int, use_on_oom: bool, no_split: bool) -> List[int]:
        options = {"use_on_oom": use_on_oom, "no_split": no_split}
        made = torch.cuda.MemPool(**{name: True for name, is_on in options.items() if is_on})
        self.pools[pool] = made
        return list(made.id)

    def _id(self, pool: int) -> Any:
        return self.pools[pool].id if pool in self.pools else (0, 1000 + pool)

    def do_begin(self, pool: int) -> None:
        """From now on requests go to a pool."""
        begin = getattr(torch._C, "_cuda_beginAllocateCurrentThreadToPool", None)
        (begin or torch._C._cuda_beginAllocateToPool)(0, self._id(pool))

    def do_end(self, pool: int) -> None:
        end = getattr(torch._C, "_cuda_endAllocateToPool", None)
        (end or torch._C._cuda_endAllocateCurrentStreamToPool)(0, self._id(pool))

    def do_release(self, pool: int) -> None:
        torch._C._cuda_releasePool(0, self._id(pool))

    def do_statistics(self) -> Any:
        return {key: value for key, value in torch.cuda.memory_stats().items() if value}

    def do_keys(self) -> List[str]:
        return sorted(torch.cuda.memory_stats())

    def do_snapshot(self) -> Any:
        """Segments, and the whole trace up to here."""
        snapshot = torch.cuda.memory._snapshot()
        segments = [self._segment(segment) for segment in snapshot["segments"]]
        trace = [
            [
                entry["action"],
                entry["device_free"] if entry["action"] == "oom" else entry["addr"],
                entry["size"],
                entry["stream"],
                list(entry["pool_id"]) if "pool_id" in entry else None,
            ]
            for entry in (snapshot["device_traces"] or [[]])[0]
        ]
        return {"segments": segments, "trace": trace}

    @staticmethod
    def _segment(segment: Dict[str, Any]) -> Any:
        keys = ("address", "total_size", "stream", "allocated_size", "active_size", "requested_size")
        return {
            **{key: segment[key] for key in keys},
            "is_large": segment["segment_type"] == "large",
            "pool": list(segment["segment_pool_id"]),
            "is_expandable": segment["is_expandable"],
            "blocks": [
                [block["address"], block["size"], block["requested_size"], block["state"]]
                for block in segment["blocks"]
            ],
        }


def main(programs: str, records: str) -> None:
    gc.disable()
    with open(programs, encoding="utf-8") as lines, open(records, "w", encoding="utf-8") as out:
        for line in lines:
            child = os.fork()
            if child == 0:
                try:
                    # It lives to the end: a pool that goes away while it is used ends the process.
                    run = Run(json.loads(line))
                    out.write(json.dumps(run.record()) + "\n")
                    out.flush()
                    os._exit(0)
                finally:
                    os._exit(1)
            _, status = os.waitpid(child, 0)
            out.seek(0, os.SEEK_END)
            if status != 0:
                out.write(json.dumps({"torch": torch.__version__, "died": status}) + "\n")
                out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
