"""All levers, in the order in which people read about them."""

from __future__ import annotations

from typing import Tuple

from . import activation_checkpointing, micro_batch, optimizer_implementation
from .lever import Lever

LEVERS: Tuple[Lever, ...] = (
    optimizer_implementation,
    micro_batch,
    activation_checkpointing,
)

NAMES: Tuple[str, ...] = tuple(lever.NAME for lever in LEVERS)
