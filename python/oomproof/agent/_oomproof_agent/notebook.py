"""Runs the code cells of a notebook in order, in one namespace, as "Restart and run all" does.

Each cell is compiled under a name of its own, `train.ipynb[cell 3]`, so that a source line in a verdict, in a traceback
and in `--assume` is one that people can find. What Jupyter keeps is kept, because it holds memory: every variable, and
the value that a cell ends with, as `Out[3]` and `_`.
"""

from __future__ import annotations
import __future__ as future_statement

import ast
import asyncio
import builtins
import functools
import importlib
import importlib.util
import inspect
import json
import linecache
import os
import sys
import traceback
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any, Callable, Dict, List, Optional, Sequence

from .cells import Cell, convert

_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(future_statement, name).compiler_flag, future_statement.all_feature_names, 0
)
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def main(arguments: Sequence[str]) -> None:
    """`arguments`: the file with the cells, then those of the notebook."""
    with open(arguments[0], encoding="utf-8") as text:
        notebook = json.load(text)
    path: str = notebook["path"]
    # Plots would wait for somebody to close their window.
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.argv[:] = [path, *arguments[1:]]
    sys.excepthook = _show_error
    sys.meta_path.append(_Absent())
    # The package has a function of that name.
    agent = importlib.import_module(".start", __package__).running
    Session(path, note=agent.device.note if agent is not None else None).run(notebook["cells"])


class Session:
    """The namespace that all cells share."""

    def __init__(self, path: str, *, note: Optional[Callable[..., None]]) -> None:
        self._path = path
        self._note = note
        self._flags = 0
        self._out: Dict[int, Any] = {}
        # A class that a cell defines is known by its module, for example to pickle.
        module = ModuleType("__main__")
        sys.modules["__main__"] = module
        self._names = module.__dict__
        shell = Shell(self._not_run)
        self._names.update(
            __builtins__=builtins, Out=self._out, _oh=self._out, _="", __="", ___="",
            display=display, get_ipython=lambda: shell,
        )  # fmt: skip

    def run(self, cells: Sequence[str]) -> None:
        for number, source in enumerate(cells, start=1):
            self.cell(number, source)

    def cell(self, number: int, source: str) -> None:
        name = f"{self._path}[cell {number}]"
        cell: Cell = convert(source)
        for each in cell.not_run:
            self._not_run(each.text, f"{name}:{each.line}")
        lines = [line + "\n" for line in source.split("\n")]
        # Without a time an entry stays, though there is no such file.
        linecache.cache[name] = (len(source), None, lines, name)
        flags = self._flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(cell.source, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last: Optional[ast.Expr] = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not _ends_silently(cell.source):
            last = tree.body.pop()
        self._execute(compile(tree, name, "exec", flags, dont_inherit=True))
        if last is not None:
            value = self._execute(compile(ast.Expression(last.value), name, "eval", flags, dont_inherit=True))
            if value is not None:
                self._keep(number, value)

    def _execute(self, code: Any) -> Any:
        self._flags |= code.co_flags & _FUTURE
        value = eval(code, self._names)
        return asyncio.run(value) if code.co_flags & inspect.CO_COROUTINE else value

    def _keep(self, number: int, value: Any) -> None:
        names = self._names
        self._out[number] = value
        names["___"], names["__"], names["_"] = names["__"], names["_"], value
        names[f"_{number}"] = value
        print(f"Out[{number}]: {value!r}")

    def _not_run(self, text: str, where: Optional[str] = None) -> None:
        if where is None:
            where = _caller()
        print(f"oomproof: not run: {text}", file=sys.stderr)
        if self._note is not None:
            shown = text if len(text) <= 120 else text[:117] + "..."
            self._note(kind="assumption", assumption="not_run", text=f"not run: `{shown}`", where=where)


def display(*values: Any, **_options: Any) -> None:
    """Jupyter's, as text."""
    for value in values:
        print(repr(value))


class Shell:
    """What `get_ipython()` gives: commands and magics are listed and not run."""

    def __init__(self, not_run: Callable[[str], None]) -> None:
        self._not_run = not_run
        self.config: Dict[str, Any] = {}
        self.kernel = None

    def system(self, command: str, *_: Any) -> None:
        self._not_run(f"!{command}")

    def getoutput(self, command: str, *_: Any, **__: Any) -> List[str]:
        self._not_run(f"!{command}")
        return []

    def run_line_magic(self, name: str, line: str = "", *_: Any, **__: Any) -> None:
        self._not_run(f"%{name} {line}".strip())

    def run_cell_magic(self, name: str, line: str = "", cell: str = "", *_: Any, **__: Any) -> None:
        self._not_run(f"%%{name} {line}".strip())

    def magic(self, line: str) -> None:
        self._not_run(f"%{line}")


class _Absent:
    """Stands in for `IPython` where it is not installed: notebooks import it for what they show."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        if name not in ("IPython", "IPython.display", "IPython.core.display"):
            return None
        return importlib.util.spec_from_loader(name, self, is_package=name != "IPython.core.display")  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["display"] = display
        module.__dict__["get_ipython"] = lambda: sys.modules["__main__"].__dict__["get_ipython"]()
        if module.__name__ == "IPython":
            return
        module.__dict__["__getattr__"] = _shown


def _shown(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _nothing


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _ends_silently(source: str) -> bool:
    return source.rstrip().endswith(";")


def _caller() -> Optional[str]:
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None


def _show_error(kind: Any, error: BaseException, trace: Optional[TracebackType]) -> None:
    """Python's own reads source lines from files alone, and cells are not files."""
    while trace is not None and _is_machinery(trace):
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


def _is_machinery(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return file.startswith((_OWN, "<frozen runpy>")) or file == _runpy_file()


def _runpy_file() -> str:
    runpy = sys.modules.get("runpy")
    return getattr(runpy, "__file__", None) or ""


if __name__ == "__main__":
    main(sys.argv[1:])
