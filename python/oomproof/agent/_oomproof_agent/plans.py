"""The plan of a run, put into effect by the package of the levers.

That package lies beside the agent's folder and is found by its path: the environment that trains has no oomproof. It
is loaded under a name of its own, and only in runs that have a plan.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, Callable, Dict, List

from .device import Device
from .exits import Exits
from .frames import Frames

_NAME = "_oomproof_levers"
# That of input that is refused.
_REFUSED = 4


class Plans:
    """Applies `settings["plan"]`, and says that it did or why not."""

    def __init__(self, settings: Dict[str, Any], device: Device, exits: Exits, frames: Frames) -> None:
        self._plan = settings.get("plan")
        self._device = device
        self._exits = exits
        self._frames = frames

    def watch(self, *, optimizers: Callable[[], List[Any]]) -> None:
        """Torch is loaded, and the agent's own hooks are in place below those of the levers."""
        if self._plan is None:
            return
        folder = levers_folder()
        self._frames.hide_levers(folder)
        _load(folder).install(
            self._plan,
            optimizers=optimizers(),
            values_are_known=False,
            on_applied=self._applied,
            on_refused=self._refused,
        )

    def failed(self, error: BaseException) -> None:
        """The script ends by an error: one that a lever's own code raised is that lever's, and not the script's."""
        trace = error.__traceback__
        if self._plan is None or trace is None or not isinstance(error, Exception):
            return
        frames = []
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        folder = levers_folder() + os.sep
        # A call of PyTorch that a lever only passes on has frames of PyTorch below the lever's.
        for frame in reversed(frames):
            if not frame.f_code.co_filename.startswith(folder):
                return
            lever = frame.f_globals.get("NAME") or frame.f_globals.get("OF_LEVER")
            if lever is not None:
                reason = f"it failed with {type(error).__name__}: {error}"
                self._device.note(kind="plan_refused", lever=lever, reason=reason)
                return

    def _applied(self) -> None:
        assert self._plan is not None
        self._device.note(kind="plan_applied", levers=self._plan.get("levers", []))

    def _refused(self, error: Any) -> None:
        self._device.note(kind="plan_refused", lever=error.lever, reason=error.reason)
        self._exits.end_now(_REFUSED)


def levers_folder() -> str:
    # The agent's folder may be reached by a link.
    agent = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    return os.path.join(os.path.dirname(agent), "levers")


def _load(folder: str) -> Any:
    if _NAME in sys.modules:
        return sys.modules[_NAME]
    path = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(_NAME, path, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no package {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = package
    spec.loader.exec_module(package)
    return package
