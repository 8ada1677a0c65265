"""`torch.compile` of the model's `forward`, with a budget for what it keeps.

The compiler's budget is a share of the activations and no cap on memory, so what it brings is only known from a run.
Which activations it keeps under the budget is a knapsack, for which it takes a solver from outside in releases that
have a class for one; such a solver is told sizes and no times, which are taken down where the compiler asks for them.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from . import knapsack
from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, known
from .patches import Patches

NAME = "compile"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "budget", "backend", "solver")
    budget = parameters.get("budget", 1.0)
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not 0 <= budget <= 1:
        return f"`budget` lies between 0 and 1, and {budget!r} does not"
    if "solver" in parameters:
        if parameters["solver"] != "exact":
            return f"`solver` is `exact` or left out, and {parameters['solver']!r} is neither"
        if "budget" not in parameters:
            return "a `solver` needs a `budget`"
        if _solver_class() is None:
            return "this release of torch takes no solver for its budget"
    if _is_compiled(context.root()):
        return "the model is compiled already"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    torch, patches, root = context.torch, Patches(), context.root()
    budget = parameters.get("budget")
    if budget is not None:
        import torch._functorch.config as settings

        before = settings.activation_memory_budget
        settings.activation_memory_budget = float(budget)
        patches.later(lambda: setattr(settings, "activation_memory_budget", before))
    if "solver" in parameters:
        _plug_in(patches)
    options = {"backend": parameters["backend"]} if "backend" in parameters else {}
    patches.attribute(root, "forward", torch.compile(root.forward, **options))
    return patches.undo


def _solver_class() -> Optional[Any]:
    """What a solver has to be, where PyTorch takes one and asks for times in the place that is known here."""
    try:
        from torch._functorch import config, partitioners
        from torch._inductor.custom_graph_pass import CustomKnapsackSolver
    except ImportError:
        return None
    known = hasattr(config, "activation_memory_budget_solver") and hasattr(partitioners, "estimate_runtime")
    return CustomKnapsackSolver if known else None


def _plug_in(patches: Patches) -> None:
    import torch._functorch.config as settings
    from torch._functorch import partitioners

    base: Any = _solver_class()
    estimate = partitioners.estimate_runtime
    times: Dict[Any, float] = {}

    def taken_down(node: Any) -> float:
        times[node] = float(estimate(node))
        return times[node]

    class Exact(base):  # type: ignore[misc]
        def __call__(
            self, memory: List[float], graph: Any, max_memory: float, info: Any, nodes: List[Any]
        ) -> Tuple[List[int], List[int]]:
            _, keep, again = knapsack.solve(memory, [times[node] for node in nodes], max_memory)
            return keep, again

        def uuid(self) -> str:
            # What was compiled with another solver is not taken from the cache.
            return f"oomproof-knapsack-{knapsack.VERSION}"

    before = settings.activation_memory_budget_solver
    settings.activation_memory_budget_solver = Exact()
    patches.later(lambda: setattr(settings, "activation_memory_budget_solver", before))
    patches.attribute(partitioners, "estimate_runtime", taken_down)


def _is_compiled(module: Any) -> bool:
    return hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
