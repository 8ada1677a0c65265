"""An extension that needs CUDA functions which are not there is named with all of them, and with no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import List, Optional

import pytest
from conftest import AGENT, Run

sys.path.insert(0, str(AGENT))
from _oomproof_agent.extensions import missing_functions, undefined_functions


def compile_to(path: Path, source: str, *, needs: Optional[Path] = None) -> Path:
    command = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(path)]
    if needs is not None:
        command += [f"-L{needs.parent}", f"-l:{needs.name}", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def calls(*names: str) -> str:
    return "".join(f"void {name}(); void call_{name}() {{ {name}(); }}" for name in names)


CASES = [
    (calls("cudaFancyNewThing"), ["cudaFancyNewThing"]),
    (calls("cuNewThing", "ncclNewThing", "nppiNewThing"), ["cuNewThing", "ncclNewThing", "nppiNewThing"]),
    (calls("cublasNewThing", "__cudaNewThing"), ["__cudaNewThing", "cublasNewThing"]),
    (calls("nvjpegNewThing"), ["nvjpegNewThing"]),
    (calls("printf", "custom", "current", "cudanoname", "mycudaThing"), []),
    ("void cudaWeakThing() __attribute__((weak)); void f() { if (cudaWeakThing) cudaWeakThing(); }", []),
    ("void cudaOwnThing() {} void f() { cudaOwnThing(); }", []),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_functions_that_a_library_needs(tmp_path: Path, source: str, expected: List[str]) -> None:
    library = compile_to(tmp_path / "library.so", source)
    assert sorted(undefined_functions(str(library))) == expected
    assert missing_functions(str(library)) == expected


def test_damaged_files_say_nothing_or_less(tmp_path: Path) -> None:
    whole = compile_to(tmp_path / "whole.so", calls("cudaFancyNewThing")).read_bytes()
    damaged = tmp_path / "damaged.so"
    cuts = [0, 1, 5, 6, 50, 63, 64, *range(65, len(whole), 499)]
    places = [*range(32, 64), *range(len(whole) - 1800, len(whole), 5)]
    flips = [whole[:at] + b"\xff" * 4 + whole[at + 4 :] for at in places]
    for content in [*(whole[:cut] for cut in cuts), *flips]:
        damaged.write_bytes(content)
        assert set(missing_functions(str(damaged))) <= {"cudaFancyNewThing"}


def test_what_does_not_load_is_noted_with_its_line(run: Run, tmp_path: Path) -> None:
    compile_to(tmp_path / "direct.so", calls("cudaFancyNewThing", "cuOther"))
    inner = compile_to(tmp_path / "libinner.so", calls("ncclNewThing"))
    compile_to(tmp_path / "outer.so", calls("call_ncclNewThing"), needs=inner)
    gone = compile_to(tmp_path / "libnppitc.so.99", "void nppiThing() {}")
    compile_to(tmp_path / "alone.so", calls("nppiThing"), needs=gone)
    os.remove(gone)
    compile_to(tmp_path / "other.so", calls("not_of_cuda_at_all"))
    finished = run(
        f"""
        import sys, torch, ctypes
        sys.path.insert(0, {str(tmp_path)!r})
        for name in ("outer", "alone", "other", "absent"):
            try:
                ctypes.CDLL({str(tmp_path)!r} + "/" + name + ".so")
            except OSError:
                pass
        for _ in range(2):
            try:
                import direct
            except ImportError as error:
                print(error)
        """
    )
    assert finished.code == 0, finished.err
    notes = [note for note in finished.notes if note["kind"] == "missing_functions"]
    assert [(note["library"], note["functions"], note["libraries"]) for note in notes] == [
        ("outer.so", ["ncclNewThing"], []),
        ("alone.so", [], ["libnppitc.so.99"]),
        ("direct.so", ["cuOther", "cudaFancyNewThing"], []),
    ]
    assert [note["where"].rsplit(":", 1)[1] for note in notes] == ["6", "6", "11"]
    assert "undefined symbol" in finished.out
