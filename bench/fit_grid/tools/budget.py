"""torch.compile with `activation_memory_budget`: the fraction of the activations that may be kept.

It is no cap in bytes, so it is given a sweep of ten settings, each of which is a trial. The usual backend makes
kernels that the eager script does not have, so its times are those of compiled code; `aot_eager_decomp_partition`
has the same plans without them, and is quicker to compile.
"""

from __future__ import annotations

from typing import Any

from cells import Cell, plain
from decision import Decision, best_of_sweep
from measure import Measured, Variant

BUDGETS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0.15, 0.05, 0.0)
#: A compilation by the usual backend takes minutes on a busy machine.
TIMEOUTS = {"aot_eager_decomp_partition": 240, "inductor": 900}


def eager(cell: Cell, measured: Measured) -> Decision:
    """The plans of the partitioner, run operation by operation."""
    return _sweep(cell, measured, "aot_eager_decomp_partition", BUDGETS)


def inductor(cell: Cell, measured: Measured) -> Decision:
    """The usual backend, with fewer settings because of what each takes."""
    return _sweep(cell, measured, "inductor", (1.0, 0.5, 0.1, 0.0))


def _sweep(cell: Cell, measured: Measured, backend: str, budgets: tuple[float, ...]) -> Decision:
    points = [
        Variant(
            cell.workload,
            {"kind": "budget", "value": value, "backend": backend},
            rows=False,
            timeout_secs=TIMEOUTS[backend],
        )
        for value in budgets
    ]
    return best_of_sweep(cell, [plain(cell.workload), *points], measured)


def apply(answer: dict[str, Any]) -> None:
    """Compiles the outermost module in place."""
    import torch._functorch.config

    from tools.outermost import at_first_forward

    torch._functorch.config.activation_memory_budget = answer["value"]
    at_first_forward(lambda model, _arguments, _options: model.compile(backend=answer["backend"]))
