"""The script is run as Python runs it, and the standard output is the verdict's alone."""

from __future__ import annotations

from typing import Any

import pytest
from virtual_run import Program

TELLS = """
import torch
print("to the standard output")
print("to the standard error", file=sys.stderr)
os.system("echo from a child")
result(
    argv=sys.argv, name=__name__, cwd=os.getcwd(), stdin=sys.stdin.read(), path=sys.path[0], file=__file__,
    executable=sys.executable, flags=[sys.flags.no_site, sys.flags.isolated], package=__package__,
    doc=__doc__, agent=[entry for entry in sys.path if entry.endswith("agent")],
    mine=sys.modules["sitecustomize"].__dict__.get("LOADED"), python_path=os.environ["PYTHONPATH"].split(":")[1:],
)
torch.ones(3).cuda()
"""
ARGUMENTS = ("--gpu", "x", "--json", "-h", "--", "-m", "--steps=3", "", "a b", "*")
SITE = "LOADED = 'the user has one'\n"

SCRIPT = Program(TELLS, arguments=ARGUMENTS, stdin="some\nlines")
MODULE = Program(
    "", target=("-m", "package.training"), arguments=ARGUMENTS, stdin="x",
    environment={"PYTHONPATH": "site"},
    files={"package/__init__.py": "", "package/training.py": "import json, os, sys\ndef result(**fields):\n    os.write(1, ('\\nRESULT ' + json.dumps(fields) + '\\n').encode())\n" + TELLS, "site/sitecustomize.py": SITE},
)  # fmt: skip
TEXT = Program(
    """
    import torch
    model = torch.nn.Linear(64, 64).cuda()
    for _ in range(2):
        model(torch.ones(2, 64).cuda()).sum().backward()
    print("{}")
    """,
    output=(),
)

TYPES = {
    "schema": int,
    "verdict": str,
    "reasons": list,
    "device": dict,
    "torch": str,
    "cuda": str,
    "peak": dict,
    "context_bytes": dict,
    "library_bytes": dict,
    "phases": dict,
    "not_reached": list,
    "steps_measured": int,
    "growth_bytes_per_step": int,
    "beside_bytes": dict,
    "other_processes": list,
    "assumptions": list,
    "unsupported": list,
    "script": dict,
    "profile": str,
}
NULLABLE = {"conf", "oom", "rank", "ranks", "step_device_ns"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("argv", ["train.py", *ARGUMENTS]),
        ("name", "__main__"),
        ("stdin", "some\nlines"),
        ("flags", [0, 0]),
        ("agent", []),
        ("package", None),
        ("doc", None),
        ("python_path", []),
        ("mine", None),
    ],
)
def test_a_script_sees_what_it_would_see(name: str, value: Any) -> None:
    assert SCRIPT.result().results[name] == value


def test_a_script_is_where_it_would_be() -> None:
    finished = SCRIPT.result()
    results = finished.results
    assert (results["cwd"], results["path"]) == (str(finished.folder), str(finished.folder))
    assert finished.folder / results["file"] == finished.folder / "train.py"


def test_a_module_sees_what_it_would_see() -> None:
    finished = MODULE.result()
    results = finished.results
    assert results["argv"] == [str(finished.folder / "package" / "training.py"), *ARGUMENTS]
    assert (results["name"], results["package"], results["stdin"]) == ("__main__", "package", "x")
    assert results["path"] == str(finished.folder)
    assert (results["mine"], results["python_path"]) == ("the user has one", ["site"])


def test_both_streams_arrive_as_talk() -> None:
    finished = SCRIPT.result()
    lines = finished.err.splitlines()
    for text in ("to the standard output", "to the standard error", "from a child"):
        assert text in lines
    assert finished.out.count("\n") == 1


def test_the_json_has_the_documented_fields() -> None:
    verdict = SCRIPT.result().verdict
    assert set(verdict) == set(TYPES) | NULLABLE
    assert {name: type(verdict[name]) for name in TYPES} == TYPES
    assert {verdict[name] for name in NULLABLE} == {None}
    assert set(verdict["peak"]) == {
        "allocated_bytes", "reserved_bytes", "process_bytes", "headroom_bytes", "phase", "step", "roles", "modules",
        "sites",
    }  # fmt: skip
    for estimate in (verdict["peak"]["process_bytes"], verdict["beside_bytes"]):
        assert set(estimate) == {"low", "likely", "high"}


def test_the_text_is_for_people() -> None:
    finished = TEXT.result()
    assert "{}" not in finished.out and "{}" in finished.err.splitlines()
    assert "fits" in finished.out
    assert "\x1b" not in finished.out + finished.err
