"""Which callers a loop over data may be ended in: a script that asks for batches in, an answer out."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "python" / "oomproof" / "agent"))

from _oomproof_agent.consumers import takes_an_end


class Batches:
    """Says of each caller whether it takes an end, and gives at most three batches."""

    def __init__(self) -> None:
        self.answers: list[bool] = []

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> int:
        self.answers.append(takes_an_end(sys._getframe(1)))
        if len(self.answers) > 3:
            raise StopIteration
        return len(self.answers)


LOOPS = [
    ("for b in batches: pass", True),
    ("for i, b in enumerate(batches): pass", True),
    ("for a, b in zip(range(9), batches): pass", True),
    ("[b for b in batches]", True),
    ("def g():\n  yield from batches\nfor b in g(): pass", True),
    ("def g():\n  for b in batches: yield b\nfor b in g(): pass", True),
    ("for i in range(3): b = next(batches)", False),
    ("while i < 3:\n  b = next(batches); i += 1", False),
    ("while i < 3:\n  try: b = next(batches)\n  except StopIteration: b = 0\n  i += 1", True),
    ("while i < 3:\n  try:\n    with quiet(): b = next(batches)\n  except StopIteration: b = 0\n  i += 1", True),
    ("try:\n  for i in range(3): b = next(batches)\nexcept Exception: raise", False),
    ("while i < 3:\n  try: b = next(batches)\n  except: b = 0\n  i += 1", False),
    ("while i < 3:\n  try: b = next(batches)\n  except RuntimeError: b = 0\n  i += 1", False),
    ("while i < 3:\n  try: b = next(batches)\n  except (OSError, StopIteration): b = 0\n  i += 1", True),
    ("while i < 3:\n  try: b = next(batches)\n  finally: i += 1", False),
    ("with quiet():\n  for i in range(3): b = next(batches)", False),
    ("def g():\n  for _ in range(3): yield next(batches)\nfor b in g(): pass", False),
    ("class W:\n  def __iter__(self): return self\n  def __next__(self): return next(batches)\nfor b in W(): pass", True),
    ("def get(): return next(batches)\nfor i in range(3): get()", False),
    ("def get(): return next(batches)\ntry:\n  while True: get()\nexcept StopIteration: pass", True),
]  # fmt: skip


@pytest.mark.parametrize(("script", "expected"), LOOPS, ids=[script for script, _ in LOOPS])
def test_takes_an_end(script, expected):
    batches = Batches()
    names = {"batches": batches, "i": 0, "quiet": contextlib.suppress}
    # A thread has no callers but its own.
    thread = threading.Thread(target=exec, args=(compile(script, "script.py", "exec"), names))
    thread.start()
    thread.join()
    assert batches.answers[:3] == [expected] * 3
