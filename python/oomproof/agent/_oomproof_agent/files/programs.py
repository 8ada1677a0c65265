"""Programs that the script starts write where they want: only Python children carry the redirection.

It cannot be helped without rights over the machine, so it is said once for each program.
"""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType
from typing import Any, Callable, Set

from .overlay import Note, Overlay

# They write what the compilers of torch ask for, in the folders that `trackers` names, or nothing.
_HARMLESS = {
    "as", "c++", "cc", "clang", "clang++", "cuobjdump", "file", "g++", "gcc", "hostname", "ld", "ldconfig",
    "ldd", "lscpu", "nproc", "nvidia-smi", "nvdisasm", "ptxas", "uname", "which",
}  # fmt: skip


def _is_python(program: str) -> bool:
    same = os.path.realpath(program) == os.path.realpath(sys.executable)
    return same or os.path.basename(program).startswith("python")


def _name_of(command: Any) -> str:
    if isinstance(command, (list, tuple)):
        command = command[0] if command else ""
    text = os.fsdecode(command) if isinstance(command, (str, bytes, os.PathLike)) else ""
    words = text.split() if os.path.sep not in text.split(" ")[0] else [text]
    return words[0] if words else ""


def changes(overlay: Overlay, note: Note) -> Callable[[ModuleType], None]:
    """A change to `subprocess`."""
    said: Set[str] = set()

    def say(command: Any) -> None:
        program = _name_of(command)
        name = os.path.basename(program)
        if not name or name in said or name in _HARMLESS or name.startswith("libgcc") or _is_python(program):
            return
        said.add(name)
        note(
            {
                "kind": "assumption",
                "assumption": "subprocess_not_covered",
                "text": f"{name} was started by the script; files it writes are not redirected",
                "where": None,
            }
        )

    def popen(module: ModuleType) -> None:
        execute = module.Popen._execute_child

        @functools.wraps(execute)
        def child(self: Any, *args: Any, **options: Any) -> Any:
            say(args[0] if args else options.get("args"))
            return execute(self, *args, **options)

        module.Popen._execute_child = child

    system = os.system

    @functools.wraps(system)
    def run(command: Any) -> int:
        say(command)
        return system(command)

    os.system = run
    return popen
