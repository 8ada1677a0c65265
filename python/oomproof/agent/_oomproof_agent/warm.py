"""A script that waits before its first use of the device, and is forked for each run that is asked for.

Importing and building the model on the host is most of what a short run costs, and it is the same whatever is tried
afterwards. PyTorch refuses the device in a child of a process that has used it, so the moment is the last before that:
where PyTorch's own initialization of the device is called. Asking how many devices there are counts as use there, and
scripts ask early, so that question is answered without PyTorch.

A child must not be told from a process that was started for its run alone: what forking changes is put back.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import posix
import random
import select
import signal
import socket
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

# Seconds between two looks at whether a child has ended.
_LOOK = 0.02

Become = Callable[[Dict[str, Any], str], None]


class Warm:
    """The moment of waiting, and what is done there."""

    def __init__(self, wanted: Optional[Dict[str, Any]], *, count: Callable[[], int], become: Become) -> None:
        self._wanted = wanted if wanted is not None and os.getppid() == wanted["launcher"] else None
        self._count = count
        self._become = become
        self._process = os.getpid()
        self._restore: List[Tuple[str, Any]] = []
        self._torch: Any = None
        # A fork of ours goes on; it is not a worker of the script.
        self.forking = False

    def watch(self, torch: Any) -> None:
        if self._wanted is None or not hasattr(torch._C, "_cuda_init"):
            return
        self._torch = torch
        self._replace("_cuda_init", self._first_use)
        self._replace("_cuda_getDeviceCount", self._n_devices)

    def _replace(self, name: str, function: Any) -> None:
        self._restore.append((name, getattr(self._torch._C, name)))
        setattr(self._torch._C, name, function)

    def _n_devices(self) -> int:
        return self._count()

    def _first_use(self) -> None:
        if os.getpid() == self._process:
            # Every optimizer has it imported, which takes longer than a step: once here, not in each child.
            importlib.import_module("torch._dynamo")
        for name, original in self._restore:
            setattr(self._torch._C, name, original)
        if os.getpid() == self._process:
            connection = _connect(self._wanted or {})
            refusal = self._refusal()
            if refusal is None:
                _Server(connection, fork=self._fork, become=self._become).serve()
                # Only children come here.
                self._torch.set_num_threads(1)
            else:
                _say(connection, refused=refusal)
                connection.close()
        self._torch._C._cuda_init()

    def _refusal(self) -> Optional[str]:
        """Why this process cannot be forked."""
        if threading.current_thread() is not threading.main_thread():
            return "the device is first used by another thread than the main one"
        if threading.active_count() > 1:
            return "the script has threads before it uses the device, and a fork would lose them"
        child = self._fork()
        if child == 0:
            posix._exit(int(bool(self._torch._C._cuda_isInBadFork())))
        _, status = os.waitpid(child, 0)
        return None if status == 0 else "the script used the device before it initialized it"

    def _fork(self) -> int:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001 - a closed or broken stream has nothing to lose
                continue
        numbers = random.getstate()
        self.forking = True
        try:
            child = os.fork()
        finally:
            self.forking = False
        if child == 0:
            # Python seeds them anew in a child.
            random.setstate(numbers)
        return child


class _Server:
    """Requests come and ends of children go through one connection, as lines of JSON."""

    def __init__(self, connection: socket.socket, *, fork: Callable[[], int], become: Become) -> None:
        self._connection = connection
        self._fork = fork
        self._become = become
        self._children: Dict[int, int] = {}
        self._received = b""

    def serve(self) -> None:
        """Returns in each child, and never in the process that was started."""
        collects = gc.isenabled()
        gc.disable()
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        _say(self._connection, ready=os.getpid())
        while True:
            for request in self._requests():
                child = self._fork()
                if child == 0:
                    self._leave(request)
                    signal.signal(signal.SIGINT, interrupt)
                    if collects:
                        gc.enable()
                    return
                # Both sides make the group, so that it is there for whichever needs it first.
                _lead_group(child)
                self._children[child] = request["id"]
                _say(self._connection, id=request["id"], started=child)
            self._reap()

    def _requests(self) -> List[Dict[str, Any]]:
        readable, _, _ = select.select([self._connection], [], [], _LOOK if self._children else None)
        if not readable:
            return []
        try:
            data = self._connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            for child in self._children:
                _end_group(child)
            posix._exit(0)
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _reap(self) -> None:
        for child, number in list(self._children.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended == 0:
                continue
            del self._children[child]
            _end_group(child)
            signaled = os.WIFSIGNALED(status)
            _say(
                self._connection,
                id=number,
                exit_code=None if signaled else os.WEXITSTATUS(status),
                signal=os.WTERMSIG(status) if signaled else None,
            )

    def _leave(self, request: Dict[str, Any]) -> None:
        """In a child: goes its own way."""
        self._connection.close()
        os.setpgid(0, 0)
        # What it prints is for whoever asks why it failed.
        output = posix.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = posix.open(os.devnull, os.O_RDONLY)
        for given, number in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(given, number)
        for given in (nothing, output):
            posix.close(given)
        with open(request["run"], encoding="utf-8") as text:
            settings = json.load(text)
        self._become(settings, request["run"])


def _connect(wanted: Dict[str, Any]) -> socket.socket:
    """Through the folder, because the path of a socket may have 107 bytes only."""
    folder, name = os.path.split(wanted["socket"])
    handle = posix.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(f"/proc/self/fd/{handle}/{name}")
    finally:
        posix.close(handle)
    return connection


def _say(connection: socket.socket, **fields: Any) -> None:
    try:
        connection.sendall(json.dumps(fields).encode() + b"\n")
    except OSError:
        # Nobody listens any more; that is noticed where requests are read.
        return


def _lead_group(child: int) -> None:
    try:
        os.setpgid(child, child)
    except (ProcessLookupError, PermissionError):
        return


def _end_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
