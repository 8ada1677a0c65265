"""Other processes of the script.

A forked child shares the parent's profile and its hooks, and must not touch either. A spawned one starts with an agent
of its own, which does nothing until that process imports PyTorch. It finds the agent through two variables, and what
starts it often makes an environment of its own: torch's compile workers get `sys.path`, which the agent has left, as
their `PYTHONPATH`.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Mapping, Optional

from .importhook import ImportHook


def after_fork_in_child(action: Callable[[], None]) -> None:
    os.register_at_fork(after_in_child=action)


def prepare_environment(*, standins: str) -> None:
    """Variables for libraries in this process and its children."""
    # Triton looks for the driver itself, in a folder.
    os.environ["TRITON_LIBCUDA_PATH"] = standins


class Followed:
    """Programs that the script starts have the two variables, whatever environment they are given."""

    def __init__(self, *, folder: str, run_json: str) -> None:
        self._folder = folder
        self.run_json = run_json

    def watch(self, imports: ImportHook) -> None:
        module = sys.modules.get("subprocess")
        if module is not None:
            self._change(module)
        else:
            imports.on("subprocess", after=self._change)

    def environment(self, given: Optional[Mapping[Any, Any]]) -> Optional[Mapping[Any, Any]]:
        """`given`, in which None stands for this process's own, with the two variables."""
        whole = os.environ if given is None else given
        first = str(whole.get("PYTHONPATH", "")).split(os.pathsep)[0]
        if first == self._folder and whole.get("OOMPROOF_RUN") == self.run_json:
            return given
        ours: Dict[Any, Any] = dict(whole)
        rest = [os.fsdecode(ours.pop(name)) for name in ("PYTHONPATH", b"PYTHONPATH") if ours.get(name)]
        ours["PYTHONPATH"] = os.pathsep.join([self._folder, *rest])
        ours["OOMPROOF_RUN"] = self.run_json
        return ours

    def _change(self, module: ModuleType) -> None:
        execute = module.Popen._execute_child
        signature = inspect.signature(execute)
        if "env" not in signature.parameters:
            return

        @functools.wraps(execute)
        def child(*args: Any, **options: Any) -> Any:
            bound = signature.bind(*args, **options)
            bound.arguments["env"] = self.environment(bound.arguments["env"])
            return execute(*bound.args, **bound.kwargs)

        module.Popen._execute_child = child
