"""Makes the seeds of the fuzz targets, in `fuzz/corpus/`.

    python3 fuzz/make_corpus.py

Needs only the standard library, and always writes the same bytes. `good-*` are snapshots, of every schema and in every
wrapping, with two frames, one segment and three entries each; `bad-*` are files that must be refused.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "corpus"
MAGIC = 0x1950A86A20F9469CFC6C
"""What old files of `torch.save` begin with."""


def snapshot(minor: int) -> Any:
    """A small snapshot with the keys of torch 2.minor."""
    inner = {"name": "forward", "filename": "model.py", "line": 7}
    outer = {"name": "<module>", "filename": "train.py", "line": 300}
    frames = [inner, outer]
    if minor >= 10:
        inner["fx_node_name"] = "linear"

    def entry(action: str, address: int, size: int, time: int) -> dict[str, Any]:
        made: dict[str, Any] = {"action": action, "addr": address, "size": size, "stream": 0}
        if action == "oom":
            made["device_free"] = made.pop("addr")
        if minor >= 2:
            made["time_us"] = 1_796_041_206_964_878 + time
        if minor >= 8:
            made["compile_context"] = "N/A"
        if minor >= 10:
            made["user_metadata"] = ""
        if minor >= 12:
            made["pool_id"] = (0, 0)
        if minor >= 15:
            made["internal_metadata"] = "x"
        made["frames"] = frames
        return made

    start = 0x7F0000000000
    block: dict[str, Any] = {"size": 1024, "requested_size": 1000, "state": "active_allocated"}
    rest: dict[str, Any] = {"size": (2 << 20) - 1024, "requested_size": 0, "state": "inactive"}
    segment: dict[str, Any] = {
        "device": 0,
        "address": start,
        "total_size": 2 << 20,
        "allocated_size": 1024,
        "active_size": 1024,
        "requested_size": 1000,
        "stream": 0,
        "segment_type": "small",
    }
    if minor >= 1:
        block = {"address": start, **block, "frames": frames}
        rest = {"address": start + 1024, **rest, "frames": []}
        segment |= {"segment_pool_id": (0, 0), "is_expandable": False, "frames": frames}
    else:
        block["history"] = [{"addr": start, "real_size": 1000, "frames": frames}]
    segment["blocks"] = [block, rest]
    trace = [
        entry("segment_alloc", start, 2 << 20, 0),
        entry("alloc", start, 1000, 1),
        entry("oom", 4096, 1 << 40, 2),
    ]
    whole: dict[str, Any] = {"segments": [segment], "device_traces": [trace, []]}
    if minor >= 3:
        whole["allocator_settings"] = {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            "max_split_size": -1,
            "garbage_collection_threshold": 0.5,
            "expandable_segments": True,
            "pinned_num_register_threads": 1,
            "roundup_power2_divisions": {"1": 0, "2": 4},
        }
    if minor >= 5:
        mark = {"stage": "START", "name": "Optimizer.step#Adam.step", "device": 0, "time_us": 7}
        whole["external_annotations"] = [mark]
    if minor >= 9:
        whole["allocator_settings"]["graph_capture_record_stream_reuse"] = False
    if minor >= 13:
        whole["allocator_settings"] |= {"max_round_threshold": 0, "max_cached_size": 0}
    if minor >= 14:
        whole |= {"host_segments": [], "host_traces": []}
    return whole


def archive(content: bytes, method: int) -> bytes:
    """What `torch.save` makes of a pickle."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, data in [("snap/data.pkl", content), ("snap/version", b"3\n")]:
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, method)
    return made.getvalue()


def legacy(content: bytes) -> bytes:
    """What `torch.save` made of a pickle before torch 1.6."""
    before = [MAGIC, 1001, {"protocol_version": 1001, "little_endian": True}]
    return b"".join(pickle.dumps(each, 2) for each in before) + content + pickle.dumps([], 2)


def page(content: bytes) -> bytes:
    """The page of `_memory_viz trace_plot`, in short."""
    files = json.dumps([{"name": "snapshot.pickle", "base64": base64.b64encode(content).decode()}])
    return f"<!DOCTYPE html>\n<script>const local_files = {files}\n</script>".encode()


def profiler_trace() -> bytes:
    """A trace of the profiler with two events of memory."""
    events = [
        {
            "ph": "i",
            "name": "[memory]",
            "ts": at,
            "args": {"Bytes": size, "Addr": 4096, "Device Id": 0, "Device Type": 1},
        }
        for at, size in [(10.5, 512), (20, -512)]
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "aten::empty"}, *events]}).encode()


def seeds() -> dict[str, bytes]:
    """All seeds by name."""
    made = {f"good-2.{minor}": pickle.dumps(snapshot(minor), 4) for minor in [0, 1, 2, 3, 5, 8, 10, 12, 14, 15]}
    plain = made["good-2.5"]
    for protocol in [2, 3, 5]:
        made[f"good-protocol-{protocol}"] = pickle.dumps(snapshot(5), protocol)
    made["good-bare-list"] = pickle.dumps(snapshot(5)["segments"], 4)
    made["good-gzip"] = gzip.compress(plain, mtime=0)
    made["good-archive"] = archive(plain, zipfile.ZIP_STORED)
    made["good-archive-deflated"] = archive(plain, zipfile.ZIP_DEFLATED)
    made["good-legacy"] = legacy(plain)
    made["good-page"] = page(plain)
    made["good-profiler"] = profiler_trace()
    made["good-key-damaged"] = plain.replace(b"segment_pool_id", b"segment_pool\x95id")
    made["bad-empty"] = b""
    made["bad-cut"] = plain[: len(plain) // 2]
    made["bad-global"] = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R."
    made["bad-cycle"] = b"\x80\x04]\x94h\x00a."
    made["bad-length"] = b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc"
    made["bad-memo"] = b"\x80\x02K\x01r\xff\xff\xff\xff."
    made["bad-nesting"] = b"\x80\x04" + b"(" * 2000 + b"."
    made["bad-twice"] = pickle.dumps({"device_traces": [trace := snapshot(5)["device_traces"][0], trace]}, 4)
    overlapping = snapshot(5)
    overlapping["segments"] += snapshot(5)["segments"]
    made["bad-overlap"] = pickle.dumps(overlapping, 4)
    made["bad-archive-short"] = b"PK\x05\x06\x02\x00u\x00\x00\x00\x00*\x00\x00\x00\x00"
    made["bad-archive"] = made["good-archive"][:-30]
    return made


TEXTS = {
    "good-first-generation": "Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; "
    "0 bytes free; 7.00 GiB allowed; 6.50 GiB reserved in total by PyTorch)",
    "good-second-generation": "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 "
    "has a total capacity of 8.00 GiB of which 5.00 MiB is free. Process 12 has 1.00 GiB memory in use. Of the "
    "allocated memory 6.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.",
    "good-traceback": 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    loss.backward()\n'
    "RuntimeError: CUDA error: out of memory",
    "good-async": "Allocation on device 0 would exceed allowed memory. (out of memory)\nRequested : 1.00 GiB\n"
    "PyTorch limit (set by user-supplied memory fraction)\n : 17179869184.00 GiB",
    "good-smi": "|    0   N/A  N/A     12345      C   python train.py        18000MiB |\n",
}
"""Seeds of the target that explains texts."""


def main() -> None:
    """Writes them; the target of pickles takes only those that are bare."""
    texts = HERE / "explain"
    texts.mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        (texts / name).write_text(text, encoding="utf-8")
    for target in ["pickle", "snapshot"]:
        folder = HERE / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds().items():
            if target == "snapshot" or content[:1] == b"\x80":
                (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
