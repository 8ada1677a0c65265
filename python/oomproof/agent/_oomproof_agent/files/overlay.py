"""Where a path of the script really lives.

A virtual run computes garbage and scripts save, so the user's folders must not change, while the script, its
threads, its forks and its spawned Python workers must all see one consistent file system.  Hence all state is on
disk in the scratch folder: `files/` mirrors absolute paths and holds what the script wrote, `log` is an append-only
list of the paths that no longer show what the real file system has.  A path is looked up in the mirror first, then,
unless it or a folder above it is in the log, in the real file system.

Everything here works on the functions that `posix` had before they were redirected.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import posix
import stat
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

_FICLONE = 0x40049409
_COPY_CHUNK = 4 << 20
_NOTES_AT_MOST = 1000
_LINKS_AT_MOST = 40
_ALWAYS_FREE = ("/dev", "/proc", "/sys")

Note = Callable[[Dict[str, Any]], None]


def failure(code: int, *paths: object) -> OSError:
    """The error that the real file system would give; OSError picks the subclass."""
    if len(paths) == 2:
        return OSError(code, os.strerror(code), paths[0], None, paths[1])
    return OSError(code, os.strerror(code), *paths)


class Overlay:
    """The merged view of the scratch folder over the real file system."""

    def __init__(self, *, scratch: str, free: List[str], note: Note) -> None:
        self.scratch = self._plain(scratch)
        self.upper_root = self.scratch + "/files"
        self._make_dirs(self.upper_root)
        self._log = posix.open(self.scratch + "/log", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._log_read = 0
        self._gone: Set[str] = set()
        self._folders: Dict[str, str] = {}
        self._noted: Set[str] = set()
        self._note = note
        self._lock = threading.RLock()
        self._temp, self._temp_before = self._temp_folder()
        self._free = (*(self._plain(each) for each in free), self.scratch, *_ALWAYS_FREE)
        os.register_at_fork(after_in_child=self._forked)

    def move(self, *, scratch: str, free: List[str]) -> None:
        """In a forked child that goes on as a run of its own: the same view, and from now on another scratch folder."""
        here, before, before_root = posix.getcwd(), self.scratch, self.upper_root
        self.scratch = self._plain(scratch)
        self.upper_root = self.scratch + "/files"
        self._copy_tree(before, self.scratch)
        self._make_dirs(self.upper_root)
        posix.close(self._log)
        self._log = posix.open(self.scratch + "/log", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._folders = {}
        # Caches were pointed to the other one, and whoever read that goes on with it.
        self._free = (*(self._plain(each) for each in free), self.scratch, before, *_ALWAYS_FREE)
        for name, value in os.environ.items():
            if before in value:
                os.environ[name] = value.replace(before, self.scratch)
        if here == before_root or here.startswith(before_root + "/"):
            posix.chdir(self.upper_root + here[len(before_root) :])

    def _copy_tree(self, source: str, target: str) -> None:
        for name in posix.listdir(source):
            old, new = f"{source}/{name}", f"{target}/{name}"
            status = posix.lstat(old)
            if stat.S_ISDIR(status.st_mode):
                posix.mkdir(new, stat.S_IMODE(status.st_mode) | 0o700)
                self._copy_tree(old, new)
            elif stat.S_ISLNK(status.st_mode):
                posix.symlink(posix.readlink(old), new)
            elif stat.S_ISREG(status.st_mode):
                self._copy_bytes(old, new)
                posix.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))

    # -- set-up ---------------------------------------------------------------------------------------------------

    def _forked(self) -> None:
        self._lock = threading.RLock()

    @staticmethod
    def _plain(path: str) -> str:
        return os.path.realpath(path)

    @staticmethod
    def _make_dirs(path: str) -> None:
        parts = path.split("/")
        for end in range(2, len(parts) + 1):
            try:
                posix.mkdir("/".join(parts[:end]))
            except FileExistsError:
                continue
            except OSError:
                if end == len(parts):
                    raise

    def _temp_folder(self) -> Tuple[Optional[str], Set[str]]:
        """The temporary folder and what was in it before the run: that is protected, what comes later is free."""
        # As `tempfile` chooses it, which would take milliseconds to import.
        named = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
        usable = [path for path in (*named, "/tmp", "/var/tmp", "/usr/tmp") if path and posix.access(path, os.W_OK)]
        if not usable:
            return None, set()
        temp = self._plain(usable[0])
        try:
            if self._plain(posix.getcwd()) == temp:
                self._move_temp()
                return None, set()
        except FileNotFoundError:
            pass
        listing = self.scratch + "/temp.json"
        try:
            mine = f"{listing}.{os.getpid()}"
            if not self.raw_exists(listing):
                fd = posix.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(fd, "w") as out:
                    json.dump(posix.listdir(temp), out)
                try:
                    posix.link(mine, listing)
                except FileExistsError:
                    pass
                posix.unlink(mine)
            fd = posix.open(listing, os.O_RDONLY)
            with os.fdopen(fd) as lines:
                return temp, set(json.load(lines))
        except OSError:
            return None, set()

    def _move_temp(self) -> None:
        """Where the script's own folder is the temporary one, all of it is protected, and programs that the script
        starts, such as compilers, would not find what it leaves there for them: so temporaries go elsewhere."""
        folder = self.scratch + "/tmp"
        self._make_dirs(folder)
        os.environ["TMPDIR"] = folder
        tempfile = sys.modules.get("tempfile")
        if tempfile is not None:
            tempfile.tempdir = None  # type: ignore[attr-defined]

    # -- state shared between processes ---------------------------------------------------------------------------

    def untouched(self) -> bool:
        """True while no process of the run has redirected anything: then every path is what it seems."""
        size = posix.fstat(self._log).st_size
        if size != self._log_read:
            self._read_log(size)
        return size == 0

    def _read_log(self, size: int) -> None:
        with self._lock:
            data = posix.pread(self._log, size - self._log_read, self._log_read)
            end = data.rfind(b"\n") + 1
            for line in data[:end].splitlines():
                path = json.loads(line)
                if path:
                    self._gone.add(path)
            self._folders = {}
            self._log_read += end

    def _changed(self, gone: str = "") -> None:
        """Tells all processes that the shape of the tree changed, and which real path no longer shows."""
        if gone and gone in self._gone:
            gone = ""
        posix.write(self._log, json.dumps(gone).encode() + b"\n")
        self.untouched()

    def hide_real(self, path: str) -> None:
        """What the real file system has at this path is no longer part of the view."""
        self._changed(path if self.raw_exists(path) else "")

    def note(self, path: str, operation: str) -> None:
        with self._lock:
            if path in self._noted or len(self._noted) >= _NOTES_AT_MOST:
                return
            self._noted.add(path)
        self._note({"kind": "redirected", "path": path, "operation": operation})

    # -- looking up -----------------------------------------------------------------------------------------------

    @staticmethod
    def raw_exists(path: str) -> bool:
        try:
            posix.lstat(path)
        except (OSError, ValueError):
            return False
        return True

    def is_free(self, path: str) -> bool:
        """True for canonical paths that the script may change for real."""
        for folder in self._free:
            if path == folder or path.startswith(folder + "/"):
                return True
        temp = self._temp
        if temp is not None and path.startswith(temp + "/"):
            return path[len(temp) + 1 :].split("/", 1)[0] not in self._temp_before
        return False

    def upper(self, path: str) -> str:
        return self.upper_root + path

    def hidden(self, path: str) -> bool:
        gone = self._gone
        if not gone:
            return False
        while path not in ("/", ""):
            if path in gone:
                return True
            path = path.rpartition("/")[0]
        return False

    def where(self, path: str) -> Optional[str]:
        """The place of the entry with this canonical path, or None when the view has none."""
        if not self.is_free(path):
            upper = self.upper_root + path
            if self.raw_exists(upper):
                return upper
            if self.hidden(path):
                return None
        return path if self.raw_exists(path) else None

    def logical(self, path: str) -> str:
        """The script's name of a place: undoes `upper`."""
        if path == self.upper_root or path.startswith(self.upper_root + "/"):
            return path[len(self.upper_root) :] or "/"
        return path

    def getcwd(self) -> str:
        return self.logical(posix.getcwd())

    def absolute(self, path: Any, dir_fd: Optional[int] = None) -> str:
        path = os.fspath(path)
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if "\0" in path:
            raise ValueError("embedded null byte")
        if not path:
            raise failure(errno.ENOENT, path)
        if path.startswith("/"):
            return self.logical(path)
        base = self.getcwd() if dir_fd is None else self.of_fd(dir_fd)
        return f"{base}/{path}"

    def of_fd(self, fd: int) -> str:
        return self.logical(posix.readlink(f"/proc/self/fd/{fd}"))

    def canonical(self, path: Any, *, follow: bool, dir_fd: Optional[int] = None) -> str:
        """The absolute path with the symbolic links of the merged view resolved, the last one only on `follow`."""
        absolute = self.absolute(path, dir_fd)
        if absolute.startswith(("/proc/", "/dev/")):
            return absolute
        self.untouched()
        folder, _, name = absolute.rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            return self._walk(absolute, 0)
        known = self._folders.get(folder)
        if known is None:
            known = self._walk(folder, 0)
            self._folders[folder] = known
        result = f"{known}/{name}" if known != "/" else f"/{name}"
        if follow or absolute.endswith("/"):
            return self._follow(result, 0)
        return result

    def _follow(self, path: str, links: int) -> str:
        place = self.where(path)
        if place is None:
            return path
        try:
            target = posix.readlink(place)
        except OSError:
            return path
        if links >= _LINKS_AT_MOST:
            raise failure(errno.ELOOP, path)
        if not target.startswith("/"):
            target = f"{path.rpartition('/')[0]}/{target}"
        return self._walk(self.logical(target), links + 1)

    def _walk(self, path: str, links: int) -> str:
        result = ""
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if name == "..":
                result = result.rpartition("/")[0]
                continue
            result = self._follow(f"{result}/{name}", links)
            if result == "/":
                result = ""
        return result or "/"

    def find(self, path: Any, *, follow: bool = True, dir_fd: Optional[int] = None) -> str:
        """The place to read a path of the script from; raises as the real file system would."""
        canonical = self.canonical(path, follow=follow, dir_fd=dir_fd)
        place = self.where(canonical)
        if place is None:
            self.require_folder(canonical, path)
            raise failure(errno.ENOENT, path)
        return place

    def mode(self, canonical: str) -> Optional[int]:
        place = self.where(canonical)
        return None if place is None else posix.lstat(place).st_mode

    def is_folder(self, canonical: str) -> bool:
        mode = self.mode(canonical)
        return mode is not None and stat.S_ISDIR(mode)

    def require_folder(self, canonical: str, *named: object) -> None:
        """The folder that holds this entry must be there."""
        parent = canonical.rpartition("/")[0] or "/"
        mode = self.mode(parent)
        while mode is None and parent != "/":
            parent = parent.rpartition("/")[0] or "/"
            mode = self.mode(parent)
            if mode is not None and stat.S_ISDIR(mode):
                raise failure(errno.ENOENT, *named)
        if mode is not None and not stat.S_ISDIR(mode):
            raise failure(errno.ENOTDIR, *named)

    def names(self, canonical: str) -> List[str]:
        """The entries of a folder."""
        if self.is_free(canonical):
            return posix.listdir(canonical)
        merged: Dict[str, None] = {}
        upper = self.upper(canonical)
        seen = False
        if not self.hidden(canonical) and self.raw_exists(canonical):
            prefix = canonical if canonical != "/" else ""
            gone = self._gone
            merged = {name: None for name in posix.listdir(canonical) if f"{prefix}/{name}" not in gone}
            seen = True
        if self.raw_exists(upper):
            merged.update((name, None) for name in posix.listdir(upper))
            seen = True
        if not seen:
            raise failure(errno.ENOENT, canonical)
        return list(merged)

    # -- bringing entries into the scratch folder -----------------------------------------------------------------

    def mirror_folder(self, canonical: str) -> None:
        """Makes the scratch folder's twin of a folder of the view."""
        if not self._log_read:
            self._changed()
        upper = self.upper(canonical)
        if canonical == "/" or self.raw_exists(upper):
            return
        self.mirror_folder(canonical.rpartition("/")[0] or "/")
        try:
            mode = stat.S_IMODE(posix.lstat(canonical).st_mode) | 0o700
        except OSError:
            mode = 0o700
        try:
            posix.mkdir(upper, mode)
        except FileExistsError:
            pass

    def copy_up(self, canonical: str) -> str:
        """Brings an entry, with all that a folder holds, into the scratch folder; returns its place there."""
        upper = self.upper(canonical)
        place = self.where(canonical)
        if place is None:
            raise failure(errno.ENOENT, canonical)
        status = posix.lstat(place)
        if stat.S_ISDIR(status.st_mode):
            self.mirror_folder(canonical)
            for name in self.names(canonical):
                self.copy_up(f"{canonical}/{name}")
            return upper
        if place == upper:
            return upper
        self.mirror_folder(canonical.rpartition("/")[0] or "/")
        if stat.S_ISLNK(status.st_mode):
            posix.symlink(posix.readlink(place), upper)
        elif stat.S_ISREG(status.st_mode):
            # Other threads and ranks must never see half a copy.
            part = f"{self.scratch}/part.{os.getpid()}.{threading.get_ident()}"
            self._copy_bytes(place, part)
            posix.chmod(part, stat.S_IMODE(status.st_mode) | 0o600)
            posix.utime(part, ns=(status.st_atime_ns, status.st_mtime_ns))
            posix.rename(part, upper)
        return upper

    @staticmethod
    def _copy_bytes(source: str, target: str) -> None:
        reading = posix.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            writing = posix.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                try:
                    fcntl.ioctl(writing, _FICLONE, reading)
                except OSError:
                    while True:
                        data = posix.read(reading, _COPY_CHUNK)
                        if not data:
                            break
                        view = memoryview(data)
                        while view:
                            view = view[posix.write(writing, view) :]
            finally:
                posix.close(writing)
        finally:
            posix.close(reading)
