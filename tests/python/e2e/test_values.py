"""What the script reads from the device is right, or it is said that it was assumed and where."""

from __future__ import annotations

from typing import Any

import pytest
from virtual_run import Program

KNOWN = Program(
    """
    import torch
    # Memory that was used for other things before is given out again: what was in it must never show.
    used = [torch.full((1000,), 7.25, device="cuda") for _ in range(20)]
    del used
    host = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    result(
        copied=torch.tensor([1, 2, 3]).cuda().tolist(),
        moved=host.cuda().cpu().tolist(),
        part=host.cuda()[1].tolist(),
        item=torch.tensor(41.5).cuda().item(),
        pinned=torch.tensor([4, 5]).pin_memory().to("cuda", non_blocking=True).tolist(),
        on_device=host.cuda().clone().tolist(),
        copied_in=torch.zeros(3, 4, device="cuda").copy_(host).tolist(),
        created=torch.tensor([9, 8], device="cuda").tolist(),
        numpy=host.cuda().cpu().numpy().tolist(),
    )
    names = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
    for name in names:
        kind = getattr(torch, name)
        result(**{
            "zeros " + name: torch.zeros(5, dtype=kind, device="cuda").tolist(),
            "ones " + name: torch.ones(5, dtype=kind, device="cuda").tolist(),
            "full " + name: torch.full((3,), 1 if name == "bool" else 3, dtype=kind, device="cuda").tolist(),
            "like " + name: torch.ones_like(torch.zeros(2, 2, dtype=kind, device="cuda")).tolist(),
        })
    # What scripts branch on: masks and counts.
    mask, ids = torch.tensor([1, 1, 0]).cuda(), torch.arange(6).reshape(2, 3).cuda()
    result(
        hides=bool(mask.bool().all()), shows=bool(mask.bool().any()), full=bool((mask == 1).all()),
        shifted=(ids + 1).tolist(), doubled=(ids * 2).tolist(), later=(ids > 3).tolist(), as_float=ids.float().tolist(),
    )
    big = torch.ones(1 << 20, device="cuda")
    result(big=[big[0].item(), big[-1].item()], zeroed=torch.empty(8, device="cuda").zero_().tolist())
    """,
    ["--gpu", "rtx-4090", "--full"],
)

UNKNOWN = Program(
    """
    import torch
    def read(tensor):
        return tensor.tolist()
    fives = torch.full((4,), 5.0, device="cuda")
    freed = torch.full((4096,), 123.0, device="cuda")
    del freed
    fresh = torch.empty(4096, device="cuda")
    result(fresh=fresh[:4].tolist())
    y = torch.empty(1000, device="cuda").sum()
    result(total=float(y))
    fives = fives.view(2, 2) @ fives.view(2, 2)
    result(changed=read(fives))
    three = torch.tensor([1.0, 2.0, 3.0]).cuda()
    three[1] = torch.dot(three, three)
    result(product=three[1].item())
    if torch.isfinite(y):
        pass
    for _ in range(3):
        loss = torch.nn.functional.mse_loss(torch.empty(8, device="cuda"), torch.zeros(8, device="cuda"))
        result(loss=loss.item())
    """,
    ["--gpu", "rtx-4090", "--full"],
)
UNKNOWN_AGAIN = Program(
    UNKNOWN.script.replace(
        "import torch\n",
        "import torch\n    junk = [torch.ones(n, device='cuda') for n in range(1, 3000, 7)]; del junk\n",
        1,
    ).replace("    def read(tensor):\n        return tensor.tolist()", "    def read(tensor): return tensor.tolist()"),
    ["--gpu", "rtx-4090", "--full"],
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("copied", [1, 2, 3]),
        ("moved", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        ("part", [4, 5, 6, 7]),
        ("item", 41.5),
        ("pinned", [4, 5]),
        ("on_device", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        ("copied_in", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        ("created", [9, 8]),
        ("numpy", [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        ("hides", False),
        ("shows", True),
        ("full", False),
        ("shifted", [[1, 2, 3], [4, 5, 6]]),
        ("doubled", [[0, 2, 4], [6, 8, 10]]),
        ("later", [[False, False, False], [False, True, True]]),
        ("as_float", [[0, 1, 2], [3, 4, 5]]),
        ("big", [1, 1]),
        ("zeroed", [0] * 8),
    ],
)
def test_what_can_be_known_is_right(name: str, value: Any) -> None:
    assert KNOWN.result().results[name] == value


@pytest.mark.parametrize(
    "kind", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
def test_fills_are_right(kind: str) -> None:
    found = KNOWN.result().results
    expected = {"zeros": [0] * 5, "ones": [1] * 5, "full": [1 if kind == "bool" else 3] * 3, "like": [[1, 1], [1, 1]]}
    assert {name: found[f"{name} {kind}"] for name in expected} == expected


def test_nothing_was_assumed_of_what_is_known() -> None:
    assert KNOWN.result().reads() == []


@pytest.mark.parametrize(
    "text",
    [
        "result(fresh=",
        "result(total=",
        "return tensor.tolist()",
        "result(product=",
        "if torch.isfinite",
        "result(loss=",
    ],
)
def test_what_is_not_known_is_reported_where_it_is_read(text: str) -> None:
    finished = UNKNOWN.result()
    lines = (finished.folder / "train.py").read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if text in line)
    places = [str(each["where"]).rpartition("/")[2] for each in finished.reads()]
    assert f"train.py:{number}" in places


def test_other_work_before_changes_no_value() -> None:
    assert UNKNOWN_AGAIN.result().results == UNKNOWN.result().results


def test_freed_memory_does_not_show() -> None:
    assert 123.0 not in UNKNOWN.result().results["fresh"]
    assert UNKNOWN.result().results["changed"] != [5.0] * 4
