"""The part of oomproof that runs inside the user's interpreter.

It labels device memory by phase, module, source line and role, and ends the run when nothing new can be learned.

**Invariant**: it never changes what is allocated. It makes no device tensor, keeps no reference to one, reads no
device value and waits for no device.
"""

from __future__ import annotations

from .start import start

__all__ = ["start"]
