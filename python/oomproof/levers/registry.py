"""All levers, in the order in which people read about them."""

from __future__ import annotations

from typing import Tuple

from . import (
    activation_checkpointing,
    activation_offload,
    allocator_settings,
    attention,
    autocast,
    chunked_loss,
    micro_batch,
    optimizer_implementation,
)
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
)

NAMES: Tuple[str, ...] = tuple(lever.NAME for lever in LEVERS)
