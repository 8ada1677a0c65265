"""Weights that are not there: files of holes that libraries load, and states that are absent in every part."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python" / "oomproof" / "agent"))

from _oomproof_agent import weights
from _oomproof_agent.absent import AbsentState


class Type:
    def __init__(self, name: str, itemsize: int) -> None:
        self._name = name
        self.itemsize = itemsize

    def __str__(self) -> str:
        return f"torch.{self._name}"


def test_a_file_of_holes_has_every_tensor_and_takes_no_room(tmp_path: Path) -> None:
    source, made = tmp_path / "source", tmp_path / "made"
    source.mkdir()
    for name in ("config.json", "model.safetensors.index.json", "pytorch_model.bin"):
        (source / name).write_text("{}")
    tensors = [
        ("a.weight", (3, 1 << 28), Type("float16", 2)),
        ("b", (), Type("int64", 8)),
        ("c", (0, 4), Type("bool", 1)),
    ]
    weights.write(str(made), file="model.safetensors", source=str(source), tensors=tensors)
    assert sorted(os.listdir(made)) == ["config.json", "model.safetensors"]
    file = made / "model.safetensors"
    assert file.stat().st_blocks * 512 < 1 << 20 < file.stat().st_size
    with safe_open(str(file), framework="np") as read:
        names = list(read.keys())
        assert read.metadata() == {"format": "pt"}
        shapes = {name: (tuple(read.get_slice(name).get_shape()), read.get_slice(name).get_dtype()) for name in names}
    assert shapes == {"a.weight": ((3, 1 << 28), "F16"), "b": ((), "I64"), "c": ((0, 4), "BOOL")}


def test_types_that_no_file_has_are_refused(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with pytest.raises(weights.UnbuildableError):
        weights.write(
            str(tmp_path / "made"),
            file="x",
            source=str(tmp_path / "source"),
            tensors=[("a", (1,), Type("complex64", 8))],
        )


def test_folders_with_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "config.json").write_text("{}")
    find: Any = weights.folder_of
    assert find(str(tmp_path), file="config.json") is None
    assert find(str(tmp_path), file="config.json", subfolder="sub") == str(tmp_path / "sub")
    assert find("nobody/nothing", file="config.json", cache=str(tmp_path)) is None
    assert not weights.has_weights(str(tmp_path / "sub"))
    (tmp_path / "sub" / "model-00001-of-00002.safetensors").touch()
    assert weights.has_weights(str(tmp_path / "sub"))


def test_every_part_of_an_absent_state_is_absent() -> None:
    state = AbsentState("x.pth")
    for part in (state["model"], state.get("state_dict"), state.pop("head.weight"), state["a"]["b"]):
        assert isinstance(part, AbsentState) and part.name == "x.pth"
    assert list(state.items()) == []
