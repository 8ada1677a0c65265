"""The batch size of loaders: told, and replaced where it is that of the first."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "oomproof" / "agent"))

from _oomproof_agent.batchsize import BatchSize


def loader(wanted: Optional[int]) -> Tuple[Any, List[Dict[str, Any]]]:
    class DataLoader:
        def __init__(
            self,
            dataset: Any,
            batch_size: Optional[int] = 1,
            shuffle: Optional[bool] = None,
            sampler: Any = None,
            batch_sampler: Any = None,
        ) -> None:
            self.made = (batch_size, shuffle, batch_sampler)

    notes: List[Dict[str, Any]] = []
    watched = BatchSize(wanted=wanted, note=lambda **fields: notes.append(fields), place=lambda: "t.py:1")
    watched.watch(SimpleNamespace(DataLoader=DataLoader))
    return DataLoader, notes


CASES: List[Tuple[Callable[[Any], Any], Any]] = [
    (lambda make: make([1, 2], 8), (5, None, None)),
    (lambda make: make([1, 2], batch_size=8, shuffle=True), (5, True, None)),
    (lambda make: make([1, 2], 8, True), (5, True, None)),
    (lambda make: make([1, 2]), (5, None, None)),
    (lambda make: make([1, 2], None), (None, None, None)),
    (lambda make: make([1, 2], batch_sampler="own"), (1, None, "own")),
    (lambda make: make([1, 2], 1, None, None, "own"), (1, None, "own")),
]


@pytest.mark.parametrize(("call", "made"), CASES)
def test_replaced(call: Callable[[Any], Any], made: Any) -> None:
    make, notes = loader(5)
    assert call(make).made == made
    assert len(notes) == (made[0] == 5)


def test_only_that_of_the_first_is() -> None:
    make, notes = loader(5)
    sizes = [make(data, size).made[0] for data, size in (("abc", 8), ([], 64), (iter([]), 8), ([], 5))]
    assert sizes == [5, 64, 5, 5]
    told = [(note["size"], note["replaced_by"], note["samples"]) for note in notes]
    assert told == [(8, 5, 3), (8, 5, None)]


def test_nothing_is_replaced_unless_asked_for() -> None:
    make, notes = loader(None)
    assert make("abc", 8).made == (8, None, None)
    assert [(note["size"], note["replaced_by"]) for note in notes] == [(8, None)]
