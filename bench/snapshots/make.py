"""Makes a snapshot of two million entries, as torch writes one.

    python bench/snapshots/make.py FILE [--entries N] [--frames N] [--lists shared|own]

The objects are shared, because pickle stores an object once and refers to it afterwards: the keys and the words are
the same objects everywhere, and a frame is one dictionary however many stacks it is in. With `--lists shared` a stack
is one list, however many entries have it: 151 MiB. With `--lists own`, as torch does it since 2.1, every allocation has
a list of its own and the two entries of a free have one together: 195 MiB, and 9 million references to frames more.
Keys are those of torch 2.10; sizes, addresses and times are as long as real ones.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import random
from pathlib import Path
from typing import Any

PLACES = 400
"""Different frames; real programs of some size have 100 to 1,000."""

STACKS = 600
"""Different stacks."""

LIVE = 3000
"""Blocks that live at a time."""


def make(n_entries: int, n_frames: int, lists: str) -> dict[str, Any]:
    """The snapshot as torch's own function would return it."""
    chance = random.Random(20)
    places = [
        {
            "name": f"forward_{at}",
            "filename": f"/usr/lib/python3/site-packages/model/layer_{at % 40}.py",
            "line": at + 1,
        }
        for at in range(PLACES)
    ]
    stacks = [[chance.choice(places) for _ in range(n_frames)] for _ in range(STACKS)]
    sizes = [chance.randrange(1, 1 << 14) * 512 for _ in range(60)]
    segment_size = 1 << 36
    start = 0x7F0000000000
    slots = [start + at * (segment_size // LIVE // 512 * 512) for at in range(LIVE)]
    time = 1_796_041_206_964_878
    trace: list[dict[str, Any]] = []
    live: dict[int, tuple[int, list[dict[str, Any]]]] = {}

    def frames_of_one() -> list[dict[str, Any]]:
        stack = chance.choice(stacks)
        return list(stack) if lists == "own" else stack

    def entry(action: str, addr: int, size: int, frames: list[dict[str, Any]]) -> None:
        nonlocal time
        time += chance.randrange(3, 40)
        trace.append(
            {
                "action": action,
                "addr": addr,
                "size": size,
                "stream": 0,
                "time_us": time,
                "compile_context": "N/A",
                "user_metadata": "",
                "frames": frames,
            }
        )

    entry("segment_alloc", start, segment_size, list(stacks[0]))
    free = list(range(LIVE))
    while len(trace) < n_entries:
        if free and (len(free) > LIVE // 2 or chance.random() < 0.5):
            slot = free.pop(chance.randrange(len(free)))
            frames = frames_of_one()
            size = chance.choice(sizes)
            live[slot] = (size, frames)
            entry("alloc", slots[slot], size, frames)
        else:
            slot = chance.choice(list(live)) if chance.random() < 0.001 else next(iter(live))
            size, _ = live.pop(slot)
            free.append(slot)
            frames = frames_of_one()
            entry("free_requested", slots[slot], size, frames)
            entry("free_completed", slots[slot], size, frames)
    blocks = []
    at = start
    for slot in sorted(live):
        size, frames = live[slot]
        if slots[slot] > at:
            blocks.append(
                {"address": at, "size": slots[slot] - at, "requested_size": 0, "state": "inactive", "frames": []}
            )
        block = {
            "address": slots[slot],
            "size": size,
            "requested_size": size,
            "state": "active_allocated",
            "frames": frames,
        }
        blocks.append(block)
        at = slots[slot] + size
    if at < start + segment_size:
        rest = start + segment_size - at
        blocks.append({"address": at, "size": rest, "requested_size": 0, "state": "inactive", "frames": []})
    allocated = sum(size for size, _ in live.values())
    segment = {
        "device": 0,
        "address": start,
        "total_size": segment_size,
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": allocated,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": trace[0]["frames"],
        "blocks": blocks,
    }
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "",
        "max_split_size": -1,
        "garbage_collection_threshold": 0.0,
        "expandable_segments": False,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "graph_capture_record_stream_reuse": False,
        "roundup_power2_divisions": {str(1 << at): 0 for at in range(16)},
    }
    return {
        "segments": [segment],
        "device_traces": [trace],
        "allocator_settings": settings,
        "external_annotations": [],
    }


def main() -> None:
    """Writes the file and says how long it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path)
    parser.add_argument("--entries", type=int, default=2_000_000)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--lists", choices=["shared", "own"], default="shared")
    arguments = parser.parse_args()
    gc.disable()
    snapshot = make(arguments.entries, arguments.frames, arguments.lists)
    with arguments.file.open("wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    n_entries = len(snapshot["device_traces"][0])
    print(f"{arguments.file}: {n_entries} entries, {arguments.file.stat().st_size / (1 << 20):.1f} MiB")


if __name__ == "__main__":
    main()
