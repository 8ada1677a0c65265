"""Cells as Python: what is left out, and that every line stays where it was."""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "oomproof" / "agent"))

from _oomproof_agent.cells import convert
from _oomproof_agent.notebook import Session

CASES = [
    ("x = 1\n%matplotlib inline\ny = 2", "x = 1\npass\ny = 2", [(2, "%matplotlib inline")]),
    ("!pip install x", "pass", [(1, "!pip install x")]),
    ("if a:\n    !ls\nb", "if a:\n    pass\nb", [(2, "!ls")]),
    ("!pip install \\\n  a \\\n  b\nx", "pass\n\n\nx", [(1, "!pip install a b")]),
    ("files = !ls *.csv", "files = []", [(1, "files = !ls *.csv")]),
    ("a.b[0] = %magic x", "a.b[0] = []", [(1, "a.b[0] = %magic x")]),
    ("%time model = f(3)", "model = f(3)", []),
    ("%timeit -n 10 -r3 f(x)", "f(x)", []),
    ("t = %timeit -o f(x)", "t = f(x)", []),
    ("%%time\nx = 1\nx", "\nx = 1\nx", []),
    ("\n%%timeit -n 3\nx = 1", "\n\nx = 1", []),
    ("%%bash\nls\nrm -r x", "\n\n", [(1, "%%bash")]),
    ("%%html\n<b>", "\n", [(1, "%%html")]),
    ("%env PYTORCH_CUDA_ALLOC_CONF=a:1,b:2", "__import__('os').environ['PYTORCH_CUDA_ALLOC_CONF'] = 'a:1,b:2'", []),
    ("%env X=$HOME", "pass", [(1, "%env X=$HOME")]),
    ("%env", "pass", [(1, "%env")]),
    ("model?", "pass", []),
    ("??torch.nn", "pass", []),
    ("?", "?", []),
    # What only looks like it.
    ("x = (a\n  % b)", "x = (a\n  % b)", []),
    ("x = a \\\n  % b", "x = a \\\n  % b", []),
    ('s = """\n!ls\n%cd\n"""', 's = """\n!ls\n%cd\n"""', []),
    ("s = '''a\n%%time'''\n!x", "s = '''a\n%%time'''\npass", [(3, "!x")]),
    ("x != y\nz %= 3\n'a' % b", "x != y\nz %= 3\n'a' % b", []),
    ("f(x='!', y=[\n'%a',\n])\n!b", "f(x='!', y=[\n'%a',\n])\npass", [(4, "!b")]),
    ("# don't (\n!a", "# don't (\npass", [(2, "!a")]),
    ("s = 'a\\'b'\n%a", "s = 'a\\'b'\npass", [(2, "%a")]),
    ("x = 'unclosed\n!a", "x = 'unclosed\npass", [(2, "!a")]),
    ("))\n!a", "))\npass", [(2, "!a")]),
    ("x = 1\r\n!a\r\ny", "x = 1\npass\ny", [(2, "!a")]),
    ("", "", []),
    ("\n\n", "\n\n", []),
    ("%%", "", [(1, "%%")]),
    ("!", "pass", [(1, "!")]),
    ("!a \\", "pass", [(1, "!a \\")]),
]


@pytest.mark.parametrize(("source", "code", "not_run"), CASES)
def test_lines(source: str, code: str, not_run: List[Any]) -> None:
    cell = convert(source)
    assert (cell.source, [tuple(each) for each in cell.not_run]) == (code, not_run)
    assert cell.source.count("\n") == source.count("\n")


def test_a_written_file_is_written() -> None:
    cell = convert("%%writefile -a a/b.py\nx = '''1'''\n\\n")
    assert cell.not_run == ()
    (statement,) = ast.parse(cell.source).body
    assert isinstance(statement, ast.With)
    assert ast.unparse(statement.items[0]) == "open('a/b.py', 'a') as _file"


def run(*cells: str) -> Dict[str, Any]:
    """The namespace after the cells, the lines of the output and what was noted."""
    notes: List[Dict[str, Any]] = []
    out = io.StringIO()
    main = sys.modules["__main__"]
    session = Session("/n/t.ipynb", note=lambda **fields: notes.append(fields))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            session.run(cells)
        names = dict(sys.modules["__main__"].__dict__)
    finally:
        sys.modules["__main__"] = main
    return {**names, "said": out.getvalue().splitlines(), "noted": notes}


def test_cells_share_names_and_keep_values() -> None:
    names = run("x = 1", "x + 1", "x + 2;", "[_, Out[2]]", "None")
    assert names["said"] == ["Out[2]: 2", "Out[4]: [2, 2]"]
    assert (names["_"], names["__"], sorted(names["Out"])) == ([2, 2], 2, [2, 4])


def test_what_jupyter_has() -> None:
    names = run("display(3)", "get_ipython().system('ls')\n!pip install x", "await __import__('asyncio').sleep(0, 7)")
    assert names["said"] == ["3", "Out[3]: 7"]
    assert [note["where"] for note in names["noted"]] == ["/n/t.ipynb[cell 2]:2", "/n/t.ipynb[cell 2]:1"]
    names = run("from __future__ import annotations", "def f(a: nothing): ...\nf.__annotations__")
    assert names["said"] == ["Out[2]: {'a': 'nothing'}"]
    names = run("class A: ...\nimport pickle, sys\nsame = type(pickle.loads(pickle.dumps(A()))) is A")
    assert names["same"]


def test_errors_name_cell_and_line() -> None:
    for source, line in (("x = 1\n1 / 0", 2), ("\ndef f(:", 2)):
        with pytest.raises((ZeroDivisionError, SyntaxError)) as raised:
            run("pass", source)
        error = raised.value
        file, at = (
            (error.filename, error.lineno)
            if isinstance(error, SyntaxError)
            else (raised.traceback[-1].frame.code.raw.co_filename, raised.traceback[-1].lineno + 1)
        )
        assert (file, at) == ("/n/t.ipynb[cell 2]", line)
