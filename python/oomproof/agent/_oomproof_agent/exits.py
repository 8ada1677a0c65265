"""The end of the process, however it comes.

Most ends pass through `atexit`; `os._exit` and `exec` do not and are wrapped, and the default action of SIGTERM would
leave nothing, so a handler stands in for it until the script sets its own. An uncaught exception is read from where
the interpreter leaves it, so that hooks which the script installs for exceptions keep working untouched.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import sys
import threading
from typing import Any, Callable, Dict, Optional

from . import missing
from .device import Device
from .frames import Frames

_exit_now = os._exit


class Exits:
    """Writes the last note, once."""

    def __init__(self, device: Device, frames: Frames) -> None:
        self._device = device
        self._frames = frames
        self._ended = False
        self._asked: Optional[Any] = None
        self._was_asked = False
        self.waiting_for: Callable[[], str] = lambda: "the end of the first training step"
        self.on_terminate: Callable[[], None] = lambda: None
        self.on_error: Callable[[BaseException], None] = lambda error: None
        self.before_end: Callable[[], None] = lambda: None

    def watch(self) -> None:
        atexit.register(self._at_exit)
        self._watch_tracebacks()
        self._watch_sys_exit()
        self._watch_immediate()
        self._watch_terminate()

    def stop(self, reason: str, step: int) -> None:
        """Ends the run here: nothing of the script runs any more."""
        self._ended = True
        self.before_end()
        self._device.note(kind="stop", reason=reason, step=step)
        self.end_now(0)

    def end_now(self, code: int) -> None:
        """Ends the process, with nothing more to say than what was noted."""
        self._ended = True
        self._device.close()
        _end_workers()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001 - a closed or broken stream must not keep the run alive
                continue
        _exit_now(code)

    def forget(self) -> None:
        """In a forked child: the end of the child is not that of the run."""
        self._ended = True
        ours = getattr(signal.getsignal(signal.SIGTERM), "__self__", None) is self
        if ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _note(self, how: str, **fields: Any) -> None:
        if not self._ended:
            self._ended = True
            self.before_end()
            self._device.note(kind="exit", how=how, **fields)
            self._device.close()

    def _at_exit(self) -> None:
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(error, KeyboardInterrupt):
            self._note("signal", signal=int(signal.SIGINT), exception=self._exception(error))
        elif error is not None:
            self.on_error(error)
            self._note("exception", exception=self._exception(error))
        elif self._was_asked:
            self._note("sys.exit", code=_exit_code(self._asked))
        else:
            self._note("return", code=0)

    def _exception(self, error: BaseException) -> Dict[str, Any]:
        place = self._frames.raised(error)
        fields = {
            "type": type(error).__name__,
            "text": str(error),
            "file": place.file if place else None,
            "line": place.line if place else None,
        }
        lacking = missing.explain(error)
        if lacking is not None:
            fields["missing"] = lacking.text
        # Where a library did not find a file tells nobody anything.
        line = missing.script_line(error) if lacking is not None or isinstance(error, OSError) else None
        if line is not None:
            fields["file"], fields["line"] = line
        return fields

    def _watch_tracebacks(self) -> None:
        original = sys.excepthook

        @functools.wraps(original)
        def wrapped(kind: Any, error: BaseException, trace: Any) -> None:
            chained: Optional[BaseException] = error
            seen = set()
            while chained is not None and id(chained) not in seen:
                seen.add(id(chained))
                chained.__traceback__ = self._frames.without_own(chained.__traceback__)
                chained = chained.__cause__ or chained.__context__
            original(kind, error, error.__traceback__)

        sys.excepthook = wrapped

    def _watch_sys_exit(self) -> None:
        original = sys.exit

        @functools.wraps(original)
        def wrapped(*args: Any) -> None:
            if threading.current_thread() is threading.main_thread():
                self._was_asked = True
                self._asked = args[0] if args else None
            original(*args)

        sys.exit = wrapped  # type: ignore[assignment]

    def _watch_immediate(self) -> None:
        for name, how in (("_exit", "os._exit"), ("execv", "exec"), ("execve", "exec")):
            setattr(os, name, self._wrap_immediate(getattr(os, name), how))

    def _wrap_immediate(self, function: Any, how: str) -> Any:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if how == "os._exit":
                self._note(how, code=args[0] if args else kwargs.get("status"))
            else:
                self._note(how, program=os.fsdecode(args[0] if args else kwargs.get("path", "")))
            return function(*args, **kwargs)

        return wrapped

    def _watch_terminate(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)

    def _terminated(self, number: int, _frame: Any) -> None:
        self.on_terminate()
        self._note("signal", signal=int(number), waiting_for=self.waiting_for())
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _exit_code(asked: Any) -> int:
    if asked is None:
        return 0
    return asked if isinstance(asked, int) else 1


def _end_workers() -> None:
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return
    try:
        for child in multiprocessing.active_children():
            child.terminate()
    except Exception:  # noqa: BLE001 - whoever started this process ends its group in any case
        return
