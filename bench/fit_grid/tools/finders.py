"""Batch-size finders: they run the script with less and less until it does not run out of memory.

Neither keeps the effective batch; what would if accumulation were added by hand is judged beside it.
"""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from typing import Any

from cells import Cell
from decision import Decision
from measure import Measured, Variant

MARK = "ANSWER"


def accelerate_finder(cell: Cell, measured: Measured) -> Decision:
    """`accelerate.utils.find_executable_batch_size` around the script, begun at the script's own batch."""
    asked = Variant(
        cell.workload,
        {"kind": "finders", "start": cell.workload.batch},
        limit_bytes=cell.reserved_bytes,
        rows=False,
        timeout_secs=600,
    )
    return _judged(cell, measured.one(asked))


def with_accumulation(cell: Cell, measured: Measured) -> Decision:
    """The same, and then accumulation that brings the batch back, as accelerate's documents have a person add."""
    found = accelerate_finder(cell, measured)
    if found.variant is None or not found.claimed:
        return found
    steps = -(-cell.workload.batch // int(found.claimed["batch"]))
    if steps == 1:
        return found
    # No script here accumulates by itself, so the lever does what the person would write.
    levers = [{"name": "micro-batch", "chunks": steps}]
    return replace(found, variant=Variant(cell.workload, {"kind": "ours", "levers": levers}))


def trainer_finder(cell: Cell, measured: Measured) -> Decision:
    """`auto_find_batch_size` of Hugging Face's Trainer."""
    if "transformers" not in cell.workload.needs:
        return Decision(None, reason="the script does not use the Trainer")
    asked = Variant(
        cell.workload,
        {"kind": "finders", "start": None},
        arguments=("--auto-find-batch-size",),
        limit_bytes=cell.reserved_bytes,
        rows=False,
        timeout_secs=600,
    )
    return _judged(cell, measured.one(asked))


def _judged(cell: Cell, result: dict[str, Any]) -> Decision:
    found = result.get("answer")
    if not found or result["ended"] != "ok":
        trials = (found or {}).get("trials", 1)
        return Decision(None, trials=trials, failed_trials=trials, reason=result["ended"])
    variant = Variant(cell.workload, {"kind": "none"}, arguments=("--batch", str(found["batch"])))
    return Decision(variant, trials=found["trials"], failed_trials=found["trials"] - 1, claimed=found)


def apply(answer: dict[str, Any]) -> None:
    """Runs the script until it gets through; says with which batch."""
    import json

    script, arguments = sys.argv[0], sys.argv[1:]
    tried: list[int] = []

    def say() -> None:
        sys.stderr.write(f"\n{MARK}{json.dumps({'batch': tried[-1], 'trials': len(tried)})}\n")

    if answer["start"] is None:
        import transformers

        usual = transformers.Trainer._inner_training_loop

        def counted(self: Any, batch_size: Any = None, *rest: Any, **options: Any) -> Any:
            tried.append(batch_size)
            return usual(self, batch_size, *rest, **options)

        transformers.Trainer._inner_training_loop = counted
        runpy.run_path(script, run_name="__main__")
        say()
        raise SystemExit(0)

    from accelerate.utils import find_executable_batch_size

    @find_executable_batch_size(starting_batch_size=answer["start"])
    def train(batch_size: int) -> None:
        tried.append(batch_size)
        sys.argv = [script, *arguments, "--batch", str(batch_size)]
        runpy.run_path(script, run_name="__main__")

    train()
    say()
    raise SystemExit(0)
