"""What a failed script lacked is found in the frames of libraries, whatever error they made of it."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any, Optional

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "oomproof" / "agent"))

from _oomproof_agent import missing

LIBRARY = """
class OfflineModeIsEnabled(ConnectionError): ...
class URLError(OSError): ...
class HTTPError(OSError): ...
def hf_hub_download(repo_id, filename):
    raise OfflineModeIsEnabled("offline")
def from_pretrained(pretrained_model_name_or_path):
    try:
        hf_hub_download(repo_id=pretrained_model_name_or_path, filename="config.json")
    except OfflineModeIsEnabled as error:
        raise OSError("we could not connect") from error
def load_dataset(path):
    try:
        hf_hub_download(path, "data.py")
    except OfflineModeIsEnabled:
        raise ConnectionError(f"could not reach {path}")
def urlopen(url):
    raise URLError("no route")
class MNIST:
    __module__ = "torchvision.datasets.mnist"
    def __init__(self, root, download):
        self.root = root
        if download:
            raise RuntimeError("Error downloading train.gz")
        raise RuntimeError("Dataset not found. You can use download=True to download it")
def listdir(folder):
    raise FileNotFoundError(2, "No such file or directory", folder)
"""


def library() -> Any:
    module = types.ModuleType("library")
    exec(compile(LIBRARY, "/x/site-packages/library.py", "exec"), module.__dict__)
    return module


CASES = [
    ("from_pretrained('a/b')", "the configuration or another small file of `a/b` is not on this machine"),
    ("load_dataset('imdb')", "the data set `imdb` is not on this machine"),
    ("urlopen('https://a.b/c.pth')", "`https://a.b/c.pth` could not be fetched"),
    ("MNIST('data', download=True)", "the data set MNIST is not in `data`"),
    ("MNIST('data', download=False)", "the data set MNIST is not in `data`"),
    # The script's own errors, which say it themselves.
    ("listdir('/no')", None),
    ("int('x')", None),
    ("1 / 0", None),
]


@pytest.mark.parametrize(("call", "begin"), CASES)
def test_missing(call: str, begin: Optional[str]) -> None:
    code = compile("\n\n" + call, "/y/train.py", "exec")
    with pytest.raises(Exception) as raised:
        exec(code, library().__dict__)
    found = missing.explain(raised.value)
    if begin is None:
        assert found is None
    else:
        assert found is not None and found.text.startswith(begin), found
        assert found.where == ("/y/train.py", 3)


def test_a_chain_that_is_a_ring_ends() -> None:
    first, second = OSError("a"), OSError("b")
    first.__cause__, second.__cause__ = second, first
    assert missing.explain(first) is None
