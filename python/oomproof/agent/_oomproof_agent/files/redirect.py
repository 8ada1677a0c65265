"""The functions of `os`, `io` and `builtins` over the merged view.

They are looked up by name in many modules, some of which took a reference before the run began, so each original is
replaced wherever it is found.  Reading must stay cheap, because data loaders read thousands of files: until something
has been redirected, every reading function calls the original after one `fstat`.
"""

from __future__ import annotations

import _io
import builtins
import errno
import functools
import io
import os
import posix
import stat
import sys
from types import MethodType
from typing import Any, Callable, Dict, Iterator, List, Optional

from .overlay import Overlay, failure

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SPECIAL = (stat.S_ISCHR, stat.S_ISBLK, stat.S_ISFIFO, stat.S_ISSOCK)
_TMPFILE = getattr(os, "O_TMPFILE", 0)

# Reading functions of one path: name and whether they follow a link at the end by default.
_READERS = {
    "stat": True,
    "lstat": False,
    "readlink": False,
    "access": True,
    "statvfs": True,
    "pathconf": True,
    "getxattr": True,
    "listxattr": True,
}
# Functions that change what one path names.
_CHANGERS = {
    "chmod": True,
    "chown": True,
    "lchown": False,
    "utime": True,
    "truncate": True,
    "setxattr": True,
    "removexattr": True,
}


class Redirect:
    """Redirected functions, one method for each kind of operation.

    All are bound methods: like the originals, and unlike plain functions, they do not bind again when a class has
    them among its attributes, as older versions of `pathlib` do.
    """

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay

    # -- opening --------------------------------------------------------------------------------------------------

    def open_fd(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> int:
        overlay = self.overlay
        if not flags & _WRITES:
            if overlay.untouched():
                return posix.open(path, flags, mode, dir_fd=dir_fd)
            place = overlay.find(path, follow=not flags & os.O_NOFOLLOW, dir_fd=dir_fd)
            return int(self._named(path, posix.open, place, flags, mode))
        if _TMPFILE and flags & _TMPFILE == _TMPFILE:
            if overlay.is_free(overlay.canonical(path, follow=True, dir_fd=dir_fd)):
                return posix.open(path, flags, mode, dir_fd=dir_fd)
            return posix.open(overlay.scratch, flags, mode)
        place = self.place_to_write(path, flags, dir_fd=dir_fd)
        # The original may be read-only in its mode; its twin is ours.
        return int(self._named(path, posix.open, place, flags, mode))

    def place_to_write(self, path: Any, flags: int, *, dir_fd: Optional[int] = None) -> str:
        """Where to open a path for writing with these flags of `open`."""
        overlay = self.overlay
        exclusive = flags & os.O_EXCL and flags & os.O_CREAT
        follow = not (flags & os.O_NOFOLLOW or exclusive)
        canonical = overlay.canonical(path, follow=follow, dir_fd=dir_fd)
        if overlay.is_free(canonical):
            return canonical
        place = overlay.where(canonical)
        if place is None:
            overlay.require_folder(canonical, path)
            if not flags & os.O_CREAT:
                raise failure(errno.ENOENT, path)
        else:
            mode = posix.lstat(place).st_mode
            if exclusive:
                raise failure(errno.EEXIST, path)
            if stat.S_ISDIR(mode):
                raise failure(errno.EISDIR, path)
            if any(special(mode) for special in _SPECIAL):
                return place
            if not posix.access(place, os.W_OK):
                raise failure(errno.EACCES, path)
        upper = overlay.upper(canonical)
        overlay.note(canonical, "write")
        if place is not None and place != upper and not flags & os.O_TRUNC:
            return overlay.copy_up(canonical)
        overlay.mirror_folder(canonical.rpartition("/")[0] or "/")
        if place is not None and place != upper:
            mode = stat.S_IMODE(posix.lstat(place).st_mode) | 0o600
            posix.close(posix.open(upper, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode))
        return upper

    @staticmethod
    def _named(path: Any, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls the original with a place; an error names the script's own path."""
        try:
            return function(*args, **options)
        except OSError as error:
            error.filename = path
            raise

    def opener(self, path: Any, flags: int) -> int:
        return self.open_fd(path, flags, 0o666)

    def open_file(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: Any = None,
        errors: Any = None,
        newline: Any = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if opener is None and not isinstance(file, int) and closefd:
            reading = isinstance(mode, str) and not any(letter in mode for letter in "wax+")
            if not (reading and self.overlay.untouched()):
                opener = self.opener
        return _io.open(file, mode, buffering, encoding, errors, newline, closefd, opener)

    def file_io(self) -> type:
        opener = self.opener
        original = _io.FileIO

        class Kind(type):
            def __instancecheck__(cls, instance: Any) -> bool:
                return isinstance(instance, original)

        class FileIO(original, metaclass=Kind):  # type: ignore[misc, valid-type]
            __doc__ = original.__doc__

            def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:
                if opener is None and not isinstance(file, int):
                    opener = _opener
                super().__init__(file, mode, closefd, opener)

        _opener = opener
        FileIO.__module__ = "_io"
        return FileIO

    # -- reading --------------------------------------------------------------------------------------------------

    def reader(self, name: str, *, follows: bool) -> Callable[..., Any]:
        original = getattr(posix, name)
        overlay = self.overlay

        @functools.wraps(original)
        def read(_: Redirect, path: Any, *args: Any, **options: Any) -> Any:
            if isinstance(path, int) or overlay.untouched():
                return original(path, *args, **options)
            dir_fd = options.pop("dir_fd", None)
            follow = options.pop("follow_symlinks", follows)
            try:
                place = overlay.find(path, follow=follow, dir_fd=dir_fd)
            except OSError:
                if name == "access":
                    return False
                raise
            result = self._named(path, original, place, *args, **options)
            return os.fsencode(result) if name == "readlink" and isinstance(path, bytes) else result

        if name == "stat":

            @functools.wraps(original)
            def status(_: Redirect, path: Any, *, dir_fd: Optional[int] = None, follow_symlinks: bool = True) -> Any:
                if isinstance(path, int) or overlay.untouched():
                    return original(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
                place = overlay.find(path, follow=follow_symlinks, dir_fd=dir_fd)
                return self._named(path, original, place, follow_symlinks=follow_symlinks)

            return MethodType(status, self)
        return MethodType(read, self)

    def listdir(self, path: Any = None) -> List[Any]:
        overlay = self.overlay
        if overlay.untouched():
            return posix.listdir(path)
        given = "." if path is None else overlay.of_fd(path) if isinstance(path, int) else path
        names = self._entries(given)
        return [os.fsencode(name) for name in names] if isinstance(given, bytes) else names

    def _entries(self, path: Any) -> List[str]:
        canonical = self.overlay.canonical(path, follow=True)
        if not self.overlay.is_folder(canonical):
            exists = self.overlay.where(canonical) is not None
            raise failure(errno.ENOTDIR if exists else errno.ENOENT, path)
        return self.overlay.names(canonical)

    def scandir(self, path: Any = None) -> Any:
        if self.overlay.untouched():
            return posix.scandir(path)
        if isinstance(path, int):
            folder = self.overlay.of_fd(path)
            return Listing(Entry(self, name, name, f"{folder}/{name}") for name in self._entries(folder))
        given = "." if path is None else os.fspath(path)
        names: List[Any] = self._entries(given)
        if isinstance(given, bytes):
            names = [os.fsencode(name) for name in names]
        base = os.path.abspath(given)
        return Listing(Entry(self, name, os.path.join(given, name), os.path.join(base, name)) for name in names)

    # -- changing -------------------------------------------------------------------------------------------------

    def changer(self, name: str, *, follows: bool) -> Callable[..., Any]:
        original = getattr(posix, name)
        overlay = self.overlay

        @functools.wraps(original)
        def change(_: Redirect, path: Any, *args: Any, **options: Any) -> Any:
            if isinstance(path, int):
                return original(path, *args, **options)
            follow = options.get("follow_symlinks", follows)
            canonical = overlay.canonical(path, follow=follow, dir_fd=options.pop("dir_fd", None))
            if overlay.is_free(canonical):
                return self._named(path, original, canonical, *args, **options)
            place = overlay.where(canonical)
            if place is None:
                overlay.require_folder(canonical, path)
                raise failure(errno.ENOENT, path)
            overlay.note(canonical, name)
            if overlay.is_folder(canonical):
                overlay.mirror_folder(canonical)
                upper = overlay.upper(canonical)
            else:
                upper = overlay.copy_up(canonical)
            return self._named(path, original, upper, *args, **options)

        return MethodType(change, self)

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> None:
        canonical = self._new_entry(path, dir_fd=dir_fd, operation="mkdir")
        self._named(path, posix.mkdir, canonical, mode)

    def _new_entry(self, path: Any, *, operation: str, dir_fd: Optional[int] = None, also: Any = None) -> str:
        """Where to make an entry that must not exist."""
        overlay = self.overlay
        named = (path,) if also is None else (also, path)
        canonical = overlay.canonical(path, follow=False, dir_fd=dir_fd)
        if overlay.where(canonical) is not None:
            raise failure(errno.EEXIST, *named)
        overlay.require_folder(canonical, *named)
        if overlay.is_free(canonical):
            return canonical
        overlay.note(canonical, operation)
        overlay.mirror_folder(canonical.rpartition("/")[0] or "/")
        return overlay.upper(canonical)

    def symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: Optional[int] = None) -> None:
        place = self._new_entry(dst, dir_fd=dir_fd, operation="symlink", also=src)
        posix.symlink(src, place, target_is_directory)
        self.overlay.hide_real(self.overlay.logical(place))

    def link(self, src: Any, dst: Any, **options: Any) -> None:
        overlay = self.overlay
        source = overlay.canonical(src, follow=False, dir_fd=options.get("src_dir_fd"))
        if overlay.where(source) is None:
            raise failure(errno.ENOENT, src, dst)
        place = self._new_entry(dst, dir_fd=options.get("dst_dir_fd"), operation="link", also=src)
        if not overlay.is_free(source):
            source = overlay.copy_up(source)
        posix.link(source, place, follow_symlinks=options.get("follow_symlinks", True))

    def mkfifo(self, path: Any, mode: int = 0o666, *, dir_fd: Optional[int] = None) -> None:
        posix.mkfifo(self._new_entry(path, dir_fd=dir_fd, operation="mkfifo"), mode)

    def unlink(self, path: Any, *, dir_fd: Optional[int] = None) -> None:
        overlay = self.overlay
        canonical = overlay.canonical(path, follow=False, dir_fd=dir_fd)
        if overlay.is_free(canonical):
            self._named(path, posix.unlink, canonical)
            return
        mode = overlay.mode(canonical)
        if mode is None:
            overlay.require_folder(canonical, path)
            raise failure(errno.ENOENT, path)
        if stat.S_ISDIR(mode):
            raise failure(errno.EISDIR, path)
        overlay.note(canonical, "remove")
        overlay.hide_real(canonical)
        if overlay.raw_exists(overlay.upper(canonical)):
            self._named(path, posix.unlink, overlay.upper(canonical))

    def rmdir(self, path: Any, *, dir_fd: Optional[int] = None) -> None:
        overlay = self.overlay
        canonical = overlay.canonical(path, follow=False, dir_fd=dir_fd)
        if overlay.is_free(canonical):
            self._named(path, posix.rmdir, canonical)
            return
        mode = overlay.mode(canonical)
        if mode is None:
            overlay.require_folder(canonical, path)
            raise failure(errno.ENOENT, path)
        if not stat.S_ISDIR(mode):
            raise failure(errno.ENOTDIR, path)
        if overlay.names(canonical):
            raise failure(errno.ENOTEMPTY, path)
        overlay.note(canonical, "remove")
        overlay.hide_real(canonical)
        if overlay.raw_exists(overlay.upper(canonical)):
            self._named(path, posix.rmdir, overlay.upper(canonical))

    def rename(self, src: Any, dst: Any, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None) -> None:
        overlay = self.overlay
        source = overlay.canonical(src, follow=False, dir_fd=src_dir_fd)
        target = overlay.canonical(dst, follow=False, dir_fd=dst_dir_fd)
        if overlay.is_free(source) and overlay.is_free(target):
            posix.rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            return
        mode = overlay.mode(source)
        if mode is None:
            raise failure(errno.ENOENT, src, dst)
        overlay.require_folder(target, src, dst)
        if source == target:
            return
        folder = stat.S_ISDIR(mode)
        if folder and target.startswith(source + "/"):
            raise failure(errno.EINVAL, src, dst)
        existing = overlay.mode(target)
        if existing is not None:
            if folder and not stat.S_ISDIR(existing):
                raise failure(errno.ENOTDIR, src, dst)
            if not folder and stat.S_ISDIR(existing):
                raise failure(errno.EISDIR, src, dst)
            if folder and overlay.names(target):
                raise failure(errno.ENOTEMPTY, src, dst)
        place = source if overlay.is_free(source) else overlay.copy_up(source)
        if overlay.is_free(target):
            goal = target
        else:
            overlay.note(target, "rename")
            overlay.mirror_folder(target.rpartition("/")[0] or "/")
            goal = overlay.upper(target)
        self._move(place, goal)
        if not overlay.is_free(target):
            overlay.hide_real(target)
        if not overlay.is_free(source):
            overlay.note(source, "rename")
            overlay.hide_real(source)

    @staticmethod
    def _move(place: str, goal: str) -> None:
        try:
            posix.rename(place, goal)
        except OSError as error:
            if error.errno != errno.EXDEV or stat.S_ISDIR(posix.lstat(place).st_mode):
                raise
            Overlay._copy_bytes(place, goal)
            posix.unlink(place)

    # -- the current folder ---------------------------------------------------------------------------------------

    def chdir(self, path: Any) -> None:
        if isinstance(path, int) or self.overlay.untouched():
            posix.chdir(path)
            return
        canonical = self.overlay.canonical(path, follow=True)
        place = self.overlay.find(path)
        # The real folder, where there is one, so that programs the script starts find their files.
        if not self.overlay.hidden(canonical) and self.overlay.raw_exists(canonical):
            place = canonical
        self._named(path, posix.chdir, place)

    def getcwd(self) -> str:
        return self.overlay.getcwd()

    def getcwdb(self) -> bytes:
        return os.fsencode(self.overlay.getcwd())

    # -- putting it in place --------------------------------------------------------------------------------------

    def functions(self) -> Dict[Any, Any]:
        """Each original with what replaces it."""
        table: Dict[Any, Any] = {
            _io.open: self.open_file,
            _io.FileIO: self.file_io(),
            posix.open: self.open_fd,
            posix.listdir: self.listdir,
            posix.scandir: self.scandir,
            posix.mkdir: self.mkdir,
            posix.symlink: self.symlink,
            posix.link: self.link,
            posix.mkfifo: self.mkfifo,
            posix.unlink: self.unlink,
            posix.remove: self.unlink,
            posix.rmdir: self.rmdir,
            posix.rename: self.rename,
            posix.replace: self.rename,
            posix.chdir: self.chdir,
            posix.getcwd: self.getcwd,
            posix.getcwdb: self.getcwdb,
        }
        for name, follows in _READERS.items():
            table[getattr(posix, name)] = self.reader(name, follows=follows)
        for name, follows in _CHANGERS.items():
            table[getattr(posix, name)] = self.changer(name, follows=follows)
        return table

    def install(self) -> None:
        table = {id(original): replacement for original, replacement in self.functions().items()}
        originals = list(self.functions())  # keeps the ids alive
        # Removing a tree by descriptors lists folders of the real file system alone, so that is not offered.
        for supported in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            supported.update([table[id(each)] for each in list(supported) if id(each) in table])
        os.supports_fd.discard(self.scandir)
        keep = {"posix", "_io", "importlib._bootstrap", "importlib._bootstrap_external"}
        for name, module in list(sys.modules.items()):
            if name in keep or name.startswith(("_frozen", "_oomproof_agent")) or not hasattr(module, "__dict__"):
                continue
            for attribute, value in list(vars(module).items()):
                if id(value) in table:
                    setattr(module, attribute, table[id(value)])
        builtins.open = table[id(_io.open)]
        io.FileIO = table[id(_io.FileIO)]  # type: ignore[misc]
        self._older_pathlib(table)
        del originals
        shutil = sys.modules.get("shutil")
        if shutil is not None:
            shutil._use_fd_functions = False  # type: ignore[attr-defined]

    @staticmethod
    def _older_pathlib(table: Dict[int, Any]) -> None:
        """Python 3.9 and 3.10 keep references in a class."""
        accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)
        if accessor is None:
            return
        for attribute, value in list(vars(accessor).items()):
            inner = value.__func__ if isinstance(value, staticmethod) else value
            if id(inner) in table:
                setattr(accessor, attribute, staticmethod(table[id(inner)]))


class Entry:
    """What `os.scandir` yields."""

    __slots__ = ("_full", "_redirect", "name", "path")

    def __init__(self, redirect: Redirect, name: Any, path: Any, full: Any) -> None:
        self.name = name
        self.path = path
        self._full = full
        self._redirect = redirect

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return posix.stat(
            self._redirect.overlay.find(self._full, follow=follow_symlinks), follow_symlinks=follow_symlinks
        )

    def inode(self) -> int:
        return self.stat(follow_symlinks=False).st_ino

    def _is(self, test: Callable[[int], bool], *, follow_symlinks: bool) -> bool:
        try:
            return test(self.stat(follow_symlinks=follow_symlinks).st_mode)
        except FileNotFoundError:
            return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_ISDIR, follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is(stat.S_ISREG, follow_symlinks=follow_symlinks)

    def is_symlink(self) -> bool:
        return self._is(stat.S_ISLNK, follow_symlinks=False)

    def is_junction(self) -> bool:
        return False


class Listing:
    """An iterator over a merged folder, closed like the one of `os.scandir`."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries

    def __iter__(self) -> Listing:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Listing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())
