"""What of the outside a failed script lacked: a model, a data set, a file behind an address.

Libraries raise many errors for it, often far from the call that people know and with texts about networks. What they
were looking for stands in their frames: the hub's functions have `repo_id`, `load_dataset` has `path`, and so on.
"""

from __future__ import annotations

import os
import sysconfig
from types import FrameType
from typing import Any, Iterator, List, NamedTuple, Optional, Set, Tuple

_HUB = {"OfflineModeIsEnabled", "LocalEntryNotFoundError", "RepositoryNotFoundError", "GatedRepoError"}
_NETWORK = {
    "URLError",
    "HTTPError",
    "ConnectionError",
    "ConnectTimeout",
    "MaxRetryError",
    "NameResolutionError",
    "gaierror",
}
_MOST_LINKS = 32


class Missing(NamedTuple):
    text: str
    where: Optional[Tuple[str, int]]


def explain(error: BaseException) -> Optional[Missing]:
    """One sentence about what is missing and how it is fetched; None for errors that are about something else."""
    frames: List[FrameType] = []
    names = set()
    for link in _chain(error):
        names.add(type(link).__name__)
        trace = link.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
    text = _text(error, names, frames)
    return Missing(text, script_line(error)) if text is not None else None


def script_line(error: BaseException) -> Optional[Tuple[str, int]]:
    """The innermost line that is neither a library's nor Python's own."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and not _is_library(file):
            found = (os.path.abspath(file), trace.tb_lineno)
        trace = trace.tb_next
    return found


def line_of_script(frame: Optional[FrameType]) -> Optional[Tuple[str, int]]:
    """The same for what is running."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and not _is_library(file):
            return os.path.abspath(file), frame.f_lineno
        frame = frame.f_back
    return None


def is_of_network(error: BaseException) -> bool:
    return any(type(link).__name__ in _HUB | _NETWORK for link in _chain(error))


def _is_library(file: str) -> bool:
    paths = sysconfig.get_paths()
    return (
        "/site-packages/" in file
        or "/dist-packages/" in file
        or file.startswith((paths["stdlib"] + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep))
    )


def _chain(error: Optional[BaseException]) -> Iterator[BaseException]:
    seen: Set[int] = set()
    while error is not None and id(error) not in seen and len(seen) < _MOST_LINKS:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _text(error: BaseException, names: Any, frames: List[FrameType]) -> Optional[str]:
    data = _local(frames, "load_dataset", "path")
    if data is not None and (names & (_HUB | _NETWORK | {"FileNotFoundError", "DatasetNotFoundError"})):
        return f"the data set `{data}` is not on this machine (`hf download --repo-type dataset {data}` fetches it)"
    built = _torchvision(frames)
    if built is not None and (names & _NETWORK or "download" in str(error).lower()):
        kind, root = built
        return f"the data set {kind} is not in `{root}` (download it there first)"
    if names & _HUB:
        repository = _repository(frames)
        if repository is not None:
            return (
                f"the configuration or another small file of `{repository}` is not on this machine "
                f"(`hf download {repository} --exclude '*.safetensors' '*.bin' '*.pth'` fetches all but the weights)"
            )
    if names & _NETWORK:
        address = _address(frames)
        if address is not None:
            return f"`{address}` could not be fetched (download it first)"
    return None


def _local(frames: List[FrameType], function: str, name: str) -> Optional[str]:
    for frame in frames:
        if frame.f_code.co_name == function and isinstance(frame.f_locals.get(name), (str, os.PathLike)):
            return str(frame.f_locals[name])
    return None


def _repository(frames: List[FrameType]) -> Optional[str]:
    for name in ("repo_id", "pretrained_model_name_or_path", "path_or_repo_id", "model_name_or_path"):
        for frame in frames:
            value = frame.f_locals.get(name)
            if isinstance(value, str) and not os.path.isabs(value):
                return value
    return None


def _torchvision(frames: List[FrameType]) -> Optional[Tuple[str, str]]:
    for frame in frames:
        owner = frame.f_locals.get("self")
        kind = type(owner)
        if frame.f_code.co_name == "__init__" and kind.__module__.startswith(
            ("torchvision.datasets", "torchaudio.datasets", "torchtext.datasets")
        ):
            return kind.__name__, str(getattr(owner, "root", "its folder"))
    return None


def _address(frames: List[FrameType]) -> Optional[str]:
    for frame in frames:
        value = frame.f_locals.get("url")
        value = getattr(value, "full_url", value)
        if isinstance(value, str) and value.startswith(("http://", "https://", "ftp://")):
            return value
    return None
