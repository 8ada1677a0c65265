"""Small trained matrices beside frozen weights, by `peft`.

They are put into the model where it stands, and into the optimizer as one more group with the options of the first; the
frozen weights get no gradients any more, and so no state.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .context import Context, Moment
from .lever import Undo
from .parameters import Parameters, count, known
from .patches import Patches

NAME = "lora"
MOMENT = Moment.MODEL


def check(context: Context, parameters: Parameters) -> Optional[str]:
    known(parameters, "rank", "alpha")
    count(parameters, "rank", least=1)
    try:
        import peft  # noqa: F401
    except ImportError:
        return "`peft` is not installed"
    if not _layers(context):
        return "the model has no linear layer but its last"
    if not context.optimizers():
        return "the optimizer is not known yet; pass it to `apply`"
    if any(optimizer.state for optimizer in context.optimizers()):
        return "the optimizer has stepped already"
    return None


def apply(context: Context, parameters: Parameters) -> Undo:
    import peft

    patches, root = Patches(), context.root()
    rank = count(parameters, "rank", least=1)
    alpha = int(parameters.get("alpha", 2 * rank))
    before = dict(root.named_modules())
    trained = [(entry, entry.requires_grad) for entry in root.parameters()]
    settings = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=_layers(context))
    peft.inject_adapter_in_model(settings, root)

    def back() -> None:
        for path, module in before.items():
            parent, _, name = path.rpartition(".")
            if path and root.get_submodule(parent)._modules.get(name) is not module:
                setattr(root.get_submodule(parent), name, module)
        for parameter, wanted in trained:
            parameter.requires_grad_(wanted)

    patches.later(back)
    for parameter, _ in trained:
        parameter.grad = None
    added = [entry for entry in root.parameters() if entry.requires_grad]
    optimizer = context.optimizers()[0]
    groups: List[Dict[str, Any]] = optimizer.param_groups
    options = {key: value for key, value in groups[0].items() if key != "params"}
    optimizer.add_param_group({**options, "params": added})
    patches.later(lambda: groups.__delitem__(-1))
    return patches.undo


def _layers(context: Context) -> List[str]:
    root = context.root()
    named = getattr(root, "get_output_embeddings", lambda: None)()
    found = [(path, module) for path, module in root.named_modules() if isinstance(module, context.torch.nn.Linear)]
    last = named if named is not None else found[-1][1] if found else None
    return [path for path, module in found if module is not last]
