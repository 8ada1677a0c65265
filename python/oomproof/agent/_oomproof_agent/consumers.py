"""Whether whoever asks for a batch can take that there is none.

A `for` loop and a handler of StopIteration can; a bare `next(iterator)` in a loop that counts by itself cannot, and in
a generator it would even become another error. The bytecode of the callers says which it is, and it is read only when
a loop is about to be cut.
"""

from __future__ import annotations

import dis
import inspect
import sys
from types import CodeType, FrameType
from typing import Any, List, Optional, Tuple

# What takes the end of an iterator as the end of its work.
_CONSUME = {"FOR_ITER", "YIELD_FROM", "SEND", "LIST_EXTEND", "GET_ANEXT"}
# A handler of any exception is there for failures.
_CATCHES = "StopIteration"
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_MATCH = ("CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH")

_Range = Tuple[int, int, int]


def takes_an_end(frame: Optional[FrameType]) -> bool:
    """Whether StopIteration raised to `frame` ends a loop somewhere, and not the script."""
    while frame is not None:
        code = frame.f_code
        try:
            if _instruction(code, frame.f_lasti) in _CONSUME or _caught(code, frame.f_lasti):
                return True
        except Exception:  # noqa: BLE001 - bytecode of a Python that is not known is no ground to end a loop
            return False
        if code.co_flags & _GENERATORS:
            return False
        frame = frame.f_back
    return False


def _instruction(code: CodeType, offset: int) -> str:
    return dis.opname[code.co_code[offset]] if offset >= 0 else ""


def _caught(code: CodeType, offset: int) -> bool:
    """Whether a handler around `offset` names StopIteration."""
    instructions = list(dis.get_instructions(code))
    ranges = _ranges(code, instructions)
    seen = set()
    while True:
        around = [entry for entry in ranges if entry[0] <= offset < entry[1] and entry not in seen]
        if not around:
            return False
        # The innermost one is the shortest; what it does not handle goes on to the one around its handler.
        entry = min(around, key=lambda found: found[1] - found[0])
        seen.add(entry)
        offset = entry[2]
        if _handles(instructions, offset):
            return True


def _ranges(code: CodeType, instructions: List[Any]) -> List[_Range]:
    """Guarded ranges of offsets, each with the offset of its handler."""
    if sys.version_info >= (3, 11):
        table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        return [(entry.start, entry.end, entry.target) for entry in table]
    # Before there was such a table, the guarded code lay between the set-up of its handler and the handler.
    guards = (entry for entry in instructions if entry.opname in ("SETUP_FINALLY", "SETUP_WITH"))
    return [(entry.offset, int(entry.argval), int(entry.argval)) for entry in guards]


def _handles(instructions: List[Any], target: int) -> bool:
    named: List[Any] = []
    for entry in instructions:
        if entry.offset < target:
            continue
        if entry.opname in _MATCH:
            if _CATCHES in named:
                return True
            named = []
        elif entry.opname in ("RERAISE", "POP_EXCEPT", "WITH_EXCEPT_START", "CLEANUP_THROW"):
            return False
        named.append(entry.argval)
    return False
