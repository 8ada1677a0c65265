"""`torch.distributed._tools.sac_milp`: a mixed-integer program over modules, with the peak as a bound in bytes.

It needs a step under fake tensors, and returns for each module the fraction of its activations to discard, which
nothing in PyTorch applies. So the applier here is ours, and made to favor it: the script's own model and first batch,
the loss that the script has, the bytes of the optimizer's states taken off the cap because the program leaves them
out, a data sheet that it knows, and a module with any fraction is checkpointed.
"""

from __future__ import annotations

import sys
from typing import Any

from cells import Cell, cells_of, plain
from decision import Decision
from measure import Measured, Variant

MARK = "ANSWER"


def decide(cell: Cell, measured: Measured) -> Decision:
    """The program's modules for the cap; all caps of a workload are asked in one go."""
    if measured.one(plain(cell.workload))["reserved_bytes"] <= cell.reserved_bytes:
        return Decision(plain(cell.workload), trials=1)
    caps = [each.reserved_bytes for each in cells_of(cell.workload, quick=False)]
    result = measured.one(
        Variant(cell.workload, {"kind": "milp", "caps": caps, "units": cell.workload.units}, timeout_secs=900)
    )
    found = result.get("answer")
    if not found:
        return Decision(None, trials=1, failed_trials=1, reason=f"cannot run: {result['ended']}")
    fractions = found["fractions"][caps.index(cell.reserved_bytes)]
    if fractions is None:
        return Decision(None, trials=1, reason="infeasible")
    answer = {"kind": "rules", "modules": sorted(fractions)}
    return Decision(Variant(cell.workload, answer), trials=1, claimed={"fractions": fractions})


def apply(answer: dict[str, Any]) -> None:
    """Makes the statistics at the first forward, solves for all caps, and ends the script."""
    import json

    from tools.outermost import at_first_forward

    def act(model: Any, arguments: Any, options: Any) -> None:
        fractions = _solve(model, arguments, options, answer)
        sys.stderr.write(f"\n{MARK}{json.dumps({'fractions': fractions})}\n")
        raise SystemExit(0)

    at_first_forward(act)


def _solve(model: Any, arguments: Any, options: Any, answer: dict[str, Any]) -> list[dict[str, float] | None]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.ilp_utils import aggregate_stats, parse_module_info
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.distributed._tools.runtime_estimator import RuntimeEstimator
    from torch.distributed._tools.sac_estimator import SACEstimator
    from torch.distributed._tools.sac_ilp import sac_milp
    from torch.utils import _pytree as pytree

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    shared: dict[int, Any] = {}

    def fake(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if id(tensor) not in shared:
            with mode:
                made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
            learns = tensor.requires_grad
            parameter = isinstance(tensor, torch.nn.Parameter)
            shared[id(tensor)] = torch.nn.Parameter(made, learns) if parameter else made
        return shared[id(tensor)]

    for module in model.modules():
        for kept in (module._parameters, module._buffers):
            for name, tensor in kept.items():
                kept[name] = fake(tensor)
    arguments, options = pytree.tree_map(fake, (arguments, options))
    card = "NVIDIA H100"
    memory, times, selective = MemTracker(), RuntimeEstimator(card), SACEstimator(card)
    with mode:
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
        memory.track_external(model, optimizer)
        with memory:
            for step in range(2):
                _step(model, arguments, options, optimizer)
                if step == 0:
                    memory.reset_mod_stats()
        with times("operator-level-cost-model"):
            _step(model, arguments, options, optimizer)
        with selective("operator-level-cost-model"):
            _loss(model(*arguments, **options))
        device = next(model.parameters()).device
        info = aggregate_stats(model, memory, times, selective, device)
    graph = parse_module_info(info)
    root = graph.nodes[0]["fqn"]
    learned = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    units = {f"{root}.{path}": path for path in answer["units"]}
    found: list[dict[str, float] | None] = []
    for cap in answer["caps"]:
        chosen, _, peak = sac_milp(graph, (cap - answer.get("states", 2) * learned) / 2**30, ac_units=list(units))
        found.append(None if peak < 0 else {units[name]: fraction for name, fraction in chosen.items()})
    return found


def _step(model: Any, arguments: Any, options: Any, optimizer: Any) -> None:
    _loss(model(*arguments, **options)).backward()
    optimizer.step()
    optimizer.zero_grad()


def _loss(output: Any) -> Any:
    """The output's own loss, or a cross entropy of what looks like logits."""
    import torch
    from torch.utils import _pytree as pytree

    leaves = pytree.tree_leaves(dict(output) if hasattr(output, "keys") else output)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    for tensor in tensors:
        if tensor.dim() == 0 and tensor.requires_grad:
            return tensor
    logits = tensors[0]
    if logits.dim() < 2:
        return logits.float().square().mean()
    rows = logits.flatten(0, -2)
    return torch.nn.functional.cross_entropy(rows, torch.zeros(len(rows), dtype=torch.long, device=rows.device))
