"""Warnings of PyTorch's own C++ code name the innermost Python frame, which is the agent's when it watches a call.

They are shown with the script's line in its place; what they say and how often they are shown stays as it is.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from types import FrameType
from typing import Any, Optional

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def watch() -> None:
    show = warnings.showwarning

    @functools.wraps(show)
    def showwarning(message: Any, category: Any, filename: str, lineno: int, *rest: Any, **options: Any) -> None:
        if os.path.abspath(filename).startswith(_OWN):
            frame: Optional[FrameType] = sys._getframe(1)
            while frame is not None and _passed_over(frame):
                frame = frame.f_back
            if frame is not None:
                filename, lineno = frame.f_code.co_filename, frame.f_lineno
        show(message, category, filename, lineno, *rest, **options)

    warnings.showwarning = showwarning


def _passed_over(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file == warnings.__file__ or file.startswith((_OWN, "<frozen "))
