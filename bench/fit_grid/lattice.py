"""Every plan of a small lattice, so that the least time under a cap is known and not only hoped for.

The lattice is micro-batches x checkpointed units x chunks of the loss, applied by oomproof's own levers, with the fused
optimizer and expandable segments throughout: these two never cost time and hardly ever memory. Of equal units only the
number matters to the bytes that are saved, and the first ones are taken; of unequal ones, those that save most, those
that save least, and the first.
"""

from __future__ import annotations

import itertools
from typing import Any

from measure import Measured, Variant, Workload

CHUNKS = (1, 2, 4, 8)
LOSS_CHUNKS = (1, 8)
EXPANDABLE = {"name": "allocator-settings", "conf": "expandable_segments:True"}
FUSED = {"name": "optimizer-implementation", "implementation": "fused"}
#: What costs no time is always taken; the plain script is looked at apart.
FREE = (EXPANDABLE, FUSED)


def plan(workload: Workload, levers: list[dict[str, Any]]) -> Variant:
    """A variant that has these levers."""
    return Variant(workload, {"kind": "ours", "levers": levers})


def subsets(workload: Workload, measured: Measured) -> list[list[str]]:
    """Which units may be checkpointed together."""
    orders = [workload.units]
    if not workload.alike:
        alone = [plan(workload, [{"name": "activation-checkpointing", "modules": [unit]}]) for unit in workload.units]
        results = measured.of(alone)
        peaks = {unit: result.get("allocated_bytes", 0) for unit, result in zip(workload.units, results, strict=True)}
        by_peak = sorted(workload.units, key=lambda unit: peaks[unit])
        orders += [by_peak, by_peak[::-1]]
    found: list[list[str]] = []
    for order in orders:
        for count in range(len(order) + 1):
            chosen = sorted(order[:count], key=workload.units.index)
            if chosen not in found:
                found.append(chosen)
    return found


def variants(workload: Workload, measured: Measured) -> list[Variant]:
    """The whole lattice."""
    chunks = [1] if workload.whole_batch else [count for count in CHUNKS if count <= workload.batch]
    found = []
    for count, units, loss in itertools.product(
        chunks, subsets(workload, measured), LOSS_CHUNKS if workload.loss else (1,)
    ):
        levers: list[dict[str, Any]] = [*FREE]
        if count > 1:
            levers.append({"name": _cutting(workload, measured), "chunks": count})
        if units:
            levers.append({"name": "activation-checkpointing", "modules": units})
        if loss > 1:
            levers.append({"name": "chunked-loss", "chunks": loss})
        found.append(plan(workload, levers))
    return found


def _cutting(workload: Workload, measured: Measured) -> str:
    """Cutting the loader's batches where that can be done, else the forward."""
    ended = measured.one(plan(workload, [{"name": "micro-batch", "chunks": 2}]))["ended"]
    return "micro-batch" if ended == "ok" else "split-forward"
