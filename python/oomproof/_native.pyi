from collections.abc import Sequence
from os import PathLike
from typing import Final

__version__: Final[str]

def run(arguments: Sequence[str], *, package: str | PathLike[str]) -> int: ...
