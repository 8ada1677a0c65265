"""The innermost source line that is not PyTorch's own.

Called for every torch call, so a code object is judged once, by identity (hashing one reads all of its constants), and
a line is found by the position in the bytecode, which costs no walk through the line table.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from types import CodeType, FrameType, TracebackType
from typing import Callable, Dict, NamedTuple, Optional, Tuple


class Place(NamedTuple):
    file: str
    line: int
    function: str


class Frames:
    """Source lines as ids that `number` gives out."""

    def __init__(self, number: Callable[[str, int, str], int]) -> None:
        self._number = number
        self._start = os.getcwd()
        # The code object stays in the value so that its identity is not given to another one.
        self._codes: Dict[int, Tuple[CodeType, Optional[Dict[int, int]]]] = {}
        own = os.path.dirname(os.path.abspath(__file__))
        self._own = tuple(folder + os.sep for folder in (own, os.path.realpath(own)))
        self._inside = self._own
        self._levers: Tuple[str, ...] = ()
        self._places: Dict[int, Place] = {}
        self._of_levers: Dict[Tuple[int, str], int] = {}
        self._files = {contextlib.__file__, functools.__file__}

    def hide(self, folder: str) -> None:
        """Frames of files under `folder` are passed over."""
        found = {os.path.abspath(folder), os.path.realpath(folder)}
        self._inside += tuple(entry + os.sep for entry in found)
        self._codes.clear()

    def hide_levers(self, folder: str) -> None:
        """Frames of levers are passed over too; what they do themselves is known by `lever`."""
        self.hide(folder)
        self._levers = self._inside[-len({os.path.abspath(folder), os.path.realpath(folder)}) :]

    @property
    def have_levers(self) -> bool:
        return bool(self._levers)

    def lever(self, frame: Optional[FrameType]) -> Optional[str]:
        """The lever whose own code `frame` is; what a lever only passes on has frames of PyTorch in between."""
        while frame is not None and frame.f_code.co_filename.startswith(self._levers):
            name = frame.f_globals.get("NAME") or frame.f_globals.get("OF_LEVER")
            if name is not None:
                return str(name)
            frame = frame.f_back
        return None

    def site_of_lever(self, number: int, lever: str) -> int:
        """Id of the line `number` for what a lever does there; no function of Python has such a name."""
        place = self._places.get(number)
        if place is None:
            return number
        key = (number, lever)
        if key not in self._of_levers:
            self._of_levers[key] = self._number(place.file, place.line, f"lever {lever}")
        return self._of_levers[key]

    def site(self, frame: Optional[FrameType]) -> int:
        """Id of the innermost foreign line at or above `frame`; 0 when there is none."""
        codes = self._codes
        while frame is not None:
            known = codes.get(id(frame.f_code))
            if known is None:
                known = self._judge(frame.f_code)
            lines = known[1]
            if lines is not None:
                number = lines.get(frame.f_lasti)
                if number is None:
                    place = self._place(frame, frame.f_lineno)
                    number = lines[frame.f_lasti] = self._number(*place)
                    self._places[number] = place
                return number
            frame = frame.f_back
        return 0

    def place(self, frame: Optional[FrameType]) -> Optional[Place]:
        """The innermost foreign line at or above `frame`."""
        while frame is not None:
            if self._foreign(frame.f_code):
                return self._place(frame, frame.f_lineno)
            frame = frame.f_back
        return None

    def raised(self, error: BaseException) -> Optional[Place]:
        """The innermost foreign line of an exception's traceback."""
        found = None
        trace = error.__traceback__
        while trace is not None:
            if self._foreign(trace.tb_frame.f_code):
                found = self._place(trace.tb_frame, trace.tb_lineno)
            trace = trace.tb_next
        return found

    def without_own(self, trace: Optional[TracebackType]) -> Optional[TracebackType]:
        """The traceback as it is without this agent: its own frames lie between the script's and PyTorch's."""
        kept = []
        while trace is not None:
            if not trace.tb_frame.f_code.co_filename.startswith(self._own):
                kept.append(trace)
            trace = trace.tb_next
        clean: Optional[TracebackType] = None
        for entry in reversed(kept):
            clean = TracebackType(clean, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        return clean

    def here(self) -> Optional[Place]:
        return self.place(sys._getframe(1))

    def _judge(self, code: CodeType) -> Tuple[CodeType, Optional[Dict[int, int]]]:
        verdict: Tuple[CodeType, Optional[Dict[int, int]]] = (code, {} if self._foreign(code) else None)
        self._codes[id(code)] = verdict
        return verdict

    def _foreign(self, code: CodeType) -> bool:
        file = code.co_filename
        if file.startswith(("<frozen ", "<eval_with_key>", "<__array_function__")):
            return False
        return file not in self._files and not file.startswith(self._inside)

    def _place(self, frame: FrameType, line: Optional[int]) -> Place:
        file = frame.f_code.co_filename
        if not file.startswith("<"):
            file = os.path.normpath(os.path.join(self._start, file))
        return Place(file, line or 0, frame.f_code.co_name)
