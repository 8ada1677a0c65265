"""ckptplan: measures declared blocks one after the other, and chooses which to checkpoint for a budget of activations.

It wants a release of PyTorch before 2.14, so it plans in an environment of its own, where the virtual card stands in
for the CUDA device that it needs; its choice is applied here by PyTorch's own wrapper, as its documents describe. Its
budget knows only the blocks' activations; what the cap is below the plain script is taken off their sum.
"""

from __future__ import annotations

import sys
from typing import Any

from cells import Cell, cells_of, plain
from decision import Decision
from measure import Measured, Variant

MARK = "ANSWER"


def decide(cell: Cell, measured: Measured) -> Decision:
    """The blocks that its dynamic program chooses."""
    reserved = measured.one(plain(cell.workload))["reserved_bytes"]
    if reserved <= cell.reserved_bytes:
        return Decision(plain(cell.workload), trials=1)
    there = measured.beside
    if there is None:
        return Decision(None, reason="cannot run: it wants torch < 2.14, and no --ckptplan-python was given")
    savings = [max(0, reserved - each.reserved_bytes) for each in cells_of(cell.workload, quick=False)]
    asked = Variant(
        cell.workload,
        {"kind": "planner_ckptplan", "savings": savings, "units": cell.workload.units},
        rows=False,
        timeout_secs=300,
    )
    result = there.one(asked)
    found = result.get("answer")
    if not found:
        return Decision(None, trials=1, failed_trials=1, reason=f"cannot run: {result['ended']}")
    chosen = found["chosen"][savings.index(reserved - cell.reserved_bytes)]
    if isinstance(chosen, str):
        return Decision(None, trials=1, reason=chosen)
    return Decision(Variant(cell.workload, {"kind": "rules", "modules": chosen}), trials=1)


def apply(answer: dict[str, Any]) -> None:
    """Plans when the first block is about to run, and ends the script."""
    import json

    from tools.outermost import at_first_forward

    def act(model: Any, _arguments: Any, _options: Any) -> None:
        units = [(path, model.get_submodule(path)) for path in answer["units"]]

        def before(_block: Any, arguments: Any, options: Any) -> None:
            handle.remove()
            chosen = _plan(units, arguments, options, answer["savings"])
            sys.stderr.write(f"\n{MARK}{json.dumps({'chosen': chosen})}\n")
            raise SystemExit(0)

        handle = units[0][1].register_forward_pre_hook(before, with_kwargs=True)

    at_first_forward(act)


def _plan(units: Any, arguments: Any, options: Any, savings: list[int]) -> list[list[str] | str]:
    import ckptplan
    import torch

    arguments, options = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (arguments, options))
    blocks = ckptplan.declare_blocks(torch.nn.ModuleList(module for _, module in units), units)
    profiles = ckptplan.profile_blocks(blocks, arguments, options or None, device="cuda", dtype=torch.float32)
    total = sum(profile.activation_bytes_estimate or 0 for profile in profiles)
    found: list[list[str] | str] = []
    for saving in savings:
        try:
            plan = ckptplan.plan_checkpoints(
                profiles,
                blocks,
                target_kind="activation_budget_bytes",
                target_value=total - saving,
                planner="dynamic_programming",
            )
            found.append([each.block_id for each in plan.decisions if each.checkpointed])
        except ckptplan.InfeasibleTargetError as error:
            found.append(f"infeasible: {error}")
    return found
