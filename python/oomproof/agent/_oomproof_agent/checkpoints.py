"""Which functions save and load.

State that is loaded onto the device beside the live model, and state that is gathered before it is written, are where
late memory errors come from; both happen inside the function that the script calls, so that one is the phase, and what
it calls belongs to it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

from .importhook import ImportHook
from .names import LOAD, SAVE
from .phases import Phases

# By module: functions, or methods as `Class.method`.
_SAVES: Dict[str, Tuple[str, ...]] = {
    "torch": ("save",),
    "safetensors.torch": ("save_file", "save_model"),
    "torch.distributed.checkpoint": ("save", "async_save"),
    "torch.distributed.checkpoint.state_dict": (
        "get_state_dict",
        "get_model_state_dict",
        "get_optimizer_state_dict",
    ),
    "accelerate.accelerator": ("Accelerator.save_state", "Accelerator.save_model", "Accelerator.get_state_dict"),
    "transformers.modeling_utils": ("PreTrainedModel.save_pretrained",),
    "transformers.trainer": ("Trainer.save_model", "Trainer._save_checkpoint"),
    "peft.peft_model": ("PeftModel.save_pretrained",),
    "diffusers.models.modeling_utils": ("ModelMixin.save_pretrained",),
    "diffusers.pipelines.pipeline_utils": ("DiffusionPipeline.save_pretrained",),
}
_LOADS: Dict[str, Tuple[str, ...]] = {
    "torch": ("load",),
    "torch.nn.modules.module": ("Module.load_state_dict",),
    "torch.optim.optimizer": ("Optimizer.load_state_dict",),
    "safetensors.torch": ("load_file", "load_model"),
    "torch.distributed.checkpoint": ("load",),
    "torch.distributed.checkpoint.state_dict": (
        "set_state_dict",
        "set_model_state_dict",
        "set_optimizer_state_dict",
    ),
    "accelerate.accelerator": ("Accelerator.load_state",),
    "transformers.trainer": ("Trainer._load_best_model", "Trainer._load_from_checkpoint"),
}


def watch(phases: Phases, imports: ImportHook) -> None:
    """Makes phases of them, now or when their module is imported."""
    for phase, functions in ((SAVE, _SAVES), (LOAD, _LOADS)):
        for name, paths in functions.items():
            imports.when_loaded(name, _changes(phases, phase, paths))


def _changes(phases: Phases, phase: int, paths: Tuple[str, ...]) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        for path in paths:
            owner, _, name = path.rpartition(".")
            holder = getattr(module, owner, None) if owner else module
            function = getattr(holder, name, None)
            if function is not None:
                setattr(holder, name, phases.wrap(function, phase))

    return change
