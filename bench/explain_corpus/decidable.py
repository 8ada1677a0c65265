"""Which messages decide their cause: rules on the message and its figures alone, fixed before any score was taken.

The product's code takes no part here: the figures are those that the corpus gives for each message.
"""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

#: A text of these kinds names what failed.
NAMED = {
    "cpu_allocator": "the text is of the allocator of main memory",
    "dataloader_shm": "the text is of a worker without shared memory",
    "triton_resources": "the text is about on-chip memory",
    "mps_buffer": "the text refuses a single buffer",
    "cudnn_masked": "the text names cuDNN",
    "nccl": "NCCL's buffers are outside PyTorch's allocator",
}
#: Words that decide, whatever the kind.
WORDS = {
    "more than 1EB": "no memory has this size",
    "expandable_segment_ INTERNAL ASSERT": "two settings of the allocator that exclude each other",
    "larger than 4GB": "a limit for single blocks",
}
MIB = 1 << 20


def reason(record: Record) -> str | None:
    """Why the message of this record decides its cause; None when it does not."""
    message = record.get("message") or ""
    if not message:
        return None
    if record.get("message_format") in NAMED:
        return NAMED[record["message_format"]]
    for word, why in WORDS.items():
        if word in message:
            return why
    return by_figures(figures(record))


def figures(record: Record) -> dict[str, int]:
    """The figures of a record in bytes, sentinels left out."""
    numbers = record.get("numbers") or {}
    known = {
        name: figure["bytes"]
        for name, figure in numbers.items()
        if isinstance(figure, dict) and figure.get("bytes") is not None
    }
    processes = numbers.get("other_processes") or []
    known["processes"] = sum(each["mem"]["bytes"] or 0 for each in processes)
    known["process_count"] = len(processes)
    return known


def by_figures(known: dict[str, int]) -> str | None:
    """The same, by the arithmetic of the card."""
    tried, total, free = (known.get(name) for name in ("tried", "total", "free"))
    allocated = known.get("allocated")
    if tried and total and tried > total:
        return "one request larger than the card"
    if allocated and total and allocated > total + 16 * MIB:
        return "more allocated than the card has"
    if tried and free is not None and free >= tried:
        return "free memory covers the request"
    if tried and total and tried * 2 >= total:
        return "one request of half the card"
    if total is None or allocated is None:
        return None
    if known["process_count"] >= 3:
        return "several processes are listed"
    if "reserved_total" in known:
        idle = known["reserved_total"] - allocated
    else:
        idle = known.get("cached_unused", known.get("reserved_unallocated", 0))
    if tried and idle >= max(tried, total // 10, 512 * MIB):
        return "much is reserved without a tensor, and it covers the request"
    if free is not None and "this_process" not in known and not known["process_count"]:
        outside = total - free - allocated - max(idle, 0)
        if outside * 4 >= total:
            return "over a quarter of the card is outside this allocator"
    return None
