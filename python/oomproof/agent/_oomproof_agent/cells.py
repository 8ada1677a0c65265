"""The code of a notebook cell as Python.

Jupyter has lines that Python does not: `%magic`, `!command` and `help?`. Where a statement begins is a question of open
brackets, texts and continued lines, and Python's own tokenizer stops at the first such line, so the few rules are here.
Every line stays where it is, because people know errors and memory by the numbers of lines.
"""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Tuple

# What these do beside running the cell changes nothing that is measured.
_RUNS_BODY = {"time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "skip", "snakeviz", "scalene"}
_RUNS_STATEMENT = {"time", "timeit", "prun", "memit", "mprun", "lprun"}
_OPTIONS = re.compile(r"(?:\s*-{1,2}\w[\w-]*(?:[ =]?\d+)?(?=\s|$))*\s*")
_ASSIGNED = re.compile(r"^(\s*)([A-Za-z_][\w.\[\]'\", ]*?)\s*=\s*([!%])(?![=])(.*)$")
_SETS = re.compile(r"^(?:env|set_env)\s+([A-Za-z_]\w*)\s*(?:=|\s)\s*([^\s{$].*|)$")
_HELP = re.compile(r"^\s*(\?{1,2}\s*[\w.*]+|[A-Za-z_%][\w.*\[\]]*\?{1,2})\s*$")


class NotRun(NamedTuple):
    """A line that only Jupyter could run."""

    line: int
    text: str


class Cell(NamedTuple):
    """The code of a cell, with as many lines as it had, and what was left out of it."""

    source: str
    not_run: Tuple[NotRun, ...]


def convert(source: str) -> Cell:
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    out = [""] * first
    not_run: List[NotRun] = []
    at = first
    if lines[first].startswith("%%"):
        if not _runs_body(lines[first]):
            written = _writes(lines, first)
            if written is not None:
                return Cell("\n" * first + written, ())
            return Cell("\n" * (len(lines) - 1), (NotRun(first + 1, lines[first].strip()),))
        out.append("")
        at = first + 1
    state = _State()
    while at < len(lines):
        line = lines[at]
        replaced = None if state.inside else _replaced(line)
        if replaced is None:
            state.read(line)
            out.append(line)
            at += 1
            continue
        code, left_out = replaced
        text = line.strip()
        begin = at
        # A command goes on in the next line as it does in a shell.
        while left_out and lines[at].endswith("\\") and at + 1 < len(lines):
            at += 1
            text = text[:-1].rstrip() + " " + lines[at].strip()
        out.append(code)
        out += [""] * (at - begin)
        if left_out:
            not_run.append(NotRun(begin + 1, text))
        else:
            state.read(code)
        at += 1
    return Cell("\n".join(out), tuple(not_run))


def _runs_body(line: str) -> bool:
    words = line[2:].split()
    return bool(words) and words[0] in _RUNS_BODY


def _writes(lines: List[str], first: int) -> Optional[str]:
    """`%%writefile`, whose file a later cell imports."""
    words = lines[first][2:].split()
    if len(words) < 2 or words[0] not in ("writefile", "file"):
        return None
    mode = "a" if "-a" in words[1:-1] else "w"
    text = "\n".join(lines[first + 1 :])
    return f"with open({words[-1]!r}, {mode!r}) as _file: _file.write({text!r})"


def _replaced(line: str) -> Optional[Tuple[str, bool]]:
    """Python for a line that is not, and whether something of it is left out; None for a line of Python."""
    bare = line.lstrip()
    indent = line[: len(line) - len(bare)]
    if bare.startswith("!"):
        return indent + "pass", True
    if bare.startswith("%") and len(bare) > 1 and (bare[1].isalpha() or bare[1] in "%_"):
        name, _, rest = bare.lstrip("%").partition(" ")
        if name in _RUNS_STATEMENT and rest.strip():
            statement = _OPTIONS.sub("", rest, count=1).strip()
            return indent + (statement or "pass"), False
        sets = _SETS.match(bare[1:].strip())
        if sets is not None:
            return f"{indent}__import__('os').environ[{sets[1]!r}] = {sets[2].strip()!r}", False
        return indent + "pass", True
    if _HELP.match(line):
        return indent + "pass", False
    assigned = _ASSIGNED.match(line)
    if assigned is not None:
        before, name, mark, rest = assigned.groups()
        word, _, statement = rest.partition(" ")
        if mark == "%" and word in _RUNS_STATEMENT and statement.strip():
            return f"{before}{name} = {_OPTIONS.sub('', statement, count=1).strip()}", False
        return f"{before}{name} = []", True
    return None


class _State:
    """Whether the next line continues a text, a bracket or a line."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0
        self._continued = False

    @property
    def inside(self) -> bool:
        return bool(self._quote) or self._depth > 0 or self._continued

    def read(self, line: str) -> None:
        at = 0
        self._continued = False
        while at < len(line):
            sign = line[at]
            if self._quote:
                if sign == "\\":
                    at += 1
                elif line.startswith(self._quote, at):
                    at += len(self._quote) - 1
                    self._quote = ""
            elif sign == "#":
                return
            elif sign in "'\"":
                self._quote = sign * 3 if line.startswith(sign * 3, at) else sign
                at += len(self._quote) - 1
            elif sign in "([{":
                self._depth += 1
            elif sign in ")]}":
                self._depth = max(0, self._depth - 1)
            elif sign == "\\" and at == len(line) - 1:
                self._continued = True
            at += 1
        if len(self._quote) == 1 and not line.endswith("\\"):
            # A short text ends with its line; an unclosed one is Python's to complain about.
            self._quote = ""
