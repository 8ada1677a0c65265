"""The rules of thumb for checkpointing: all units, every k-th unit, and all units with products kept.

`torch.distributed.algorithms` has the wrapper; the policy is the one of torchtitan, which keeps products and
attention, in its second form only every other product. No rule knows a cap: a person tries the next.
"""

from __future__ import annotations

from typing import Any

from cells import Cell, plain
from decision import Decision, first_that_fits
from measure import Measured, Variant, Workload


def _checkpoint(workload: Workload, every: int, **options: Any) -> Variant:
    return Variant(workload, {"kind": "rules", "modules": workload.units[::every], **options})


def full(cell: Cell, measured: Measured) -> Decision:
    """Nothing, then every unit."""
    return first_that_fits(cell, [plain(cell.workload), _checkpoint(cell.workload, 1)], measured)


def every_k(cell: Cell, measured: Measured) -> Decision:
    """Nothing, then more and more units."""
    steps = [every for every in (4, 3, 2, 1) if every < len(cell.workload.units) or every == 1]
    ladder = [plain(cell.workload), *(_checkpoint(cell.workload, every) for every in steps)]
    return first_that_fits(cell, ladder, measured)


def selective(cell: Cell, measured: Measured) -> Decision:
    """Nothing, then everything but products, then every other product too."""
    ladder = [
        plain(cell.workload),
        _checkpoint(cell.workload, 1, keep="products"),
        _checkpoint(cell.workload, 1, keep="every second product"),
    ]
    return first_that_fits(cell, ladder, measured)


def apply(answer: dict[str, Any]) -> None:
    """Wraps the modules."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper

    from tools.outermost import at_first_forward

    options: dict[str, Any] = {"checkpoint_impl": CheckpointImpl.NO_REENTRANT}
    if answer.get("keep"):
        options["context_fn"] = _contexts(kept_of_products=1 if answer["keep"] == "products" else 2)

    def act(model: Any, _arguments: Any, _options: Any) -> None:
        for path in answer["modules"]:
            above, _, name = path.rpartition(".")
            parent = model.get_submodule(above) if above else model
            parent._modules[name] = checkpoint_wrapper(model.get_submodule(path), **options)

    at_first_forward(act)


def _contexts(*, kept_of_products: int) -> Any:
    import torch
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    ops = torch.ops.aten
    products = {ops.mm.default, ops.addmm.default, ops.bmm.default}
    kept = {
        ops._scaled_dot_product_efficient_attention.default,
        ops._scaled_dot_product_flash_attention.default,
        ops._scaled_dot_product_cudnn_attention.default,
        ops._scaled_dot_product_flash_attention_for_cpu.default,
        ops.convolution.default,
    }

    def contexts() -> Any:
        counts = {True: 0, False: 0}

        def policy(context: Any, op: Any, *_arguments: Any, **_options: Any) -> Any:
            if op in products:
                counts[context.is_recompute] += 1
                keep = counts[context.is_recompute] % kept_of_products == 0
            else:
                keep = op in kept
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return contexts
