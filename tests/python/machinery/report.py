"""How the programs of this folder say what they found: one JSON line per function."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, Callable, Optional


def case(function: Callable[[], Any]) -> Callable[[], Any]:
    """Runs the function and prints its result, or its exception."""
    try:
        told = {"what": function.__name__, "got": function()}
    except Exception:
        told = {"what": function.__name__, "got": traceback.format_exc()}
    sys.stdout.flush()
    os.write(2, ("\n" + json.dumps(told) + "\n").encode())
    return function


def error_of(work: Callable[[], Any]) -> Optional[str]:
    """The first line of what goes wrong first in `work`."""
    try:
        work()
    except Exception as error:
        first: BaseException = error
        while first.__context__ is not None:
            first = first.__context__
        return str(first).splitlines()[0]
    return None
