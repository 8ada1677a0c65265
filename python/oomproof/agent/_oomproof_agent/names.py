"""Phases, roles and counters as the profile's codes.

The numbers are written into profiles, so they equal those of `crates/profile`; a test compares the two.
"""

from __future__ import annotations

# Of the functions that the agent calls in the virtual device; they change together.
INTERFACE = 1

LOAD = 0
FORWARD = 1
BACKWARD = 2
OPTIMIZER = 3
EVALUATION = 4
SAVE = 5
IDLE = 6

PHASES = ("load", "forward", "backward", "optimizer", "evaluation", "save", "idle")

PARAMETER = 1
GRADIENT = 2
OPTIMIZER_STATE = 3
BUFFER = 4

# Offsets in the header of the profile.
STATE_AT = 64
COUNTERS_AT = 128

# Words at STATE_AT.
SITE_WORD = 0
MODULE_WORD = 1

# Indexes of counters at COUNTERS_AT.
N_COUNTERS = 16
ALLOCATED = 0
PEAK_ALLOCATED = 2
STEP_PEAK_ALLOCATED = 6
STEP_PEAK_RESERVED = 7
EVENTS = 8
OUT_OF_MEMORY = 11
KERNELS = 12
DEVICE_TIME = 15
