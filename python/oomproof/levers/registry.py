"""All levers, in the order in which people read about them."""

from __future__ import annotations

from typing import Tuple

from . import (
    activation_checkpointing,
    activation_offload,
    allocator_settings,
    attention,
    autocast,
    bf16_parameters,
    channels_last,
    chunked_loss,
    compiler,
    evaluation_batch,
    gradient_bucket_view,
    inference_evaluation,
    lora,
    micro_batch,
    optimizer_implementation,
    optimizer_in_backward,
    optimizer_offload,
    optimizer_state,
    per_batch_transfer,
    set_to_none,
    split_forward,
)
from .advice import FREE_EARLY, LARGER_CARD, PRUNE
from .lever import Lever

LEVERS: Tuple[Lever, ...] = (
    allocator_settings,
    optimizer_implementation,
    micro_batch,
    activation_checkpointing,
    chunked_loss,
    attention,
    autocast,
    activation_offload,
    set_to_none,
    gradient_bucket_view,
    split_forward,
    bf16_parameters,
    optimizer_state,
    optimizer_in_backward,
    optimizer_offload,
    compiler,
    lora,
    channels_last,
    inference_evaluation,
    evaluation_batch,
    per_batch_transfer,
    FREE_EARLY,
    PRUNE,
    LARGER_CARD,
)

NAMES: Tuple[str, ...] = tuple(lever.NAME for lever in LEVERS)
