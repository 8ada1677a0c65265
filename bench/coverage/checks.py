"""What makes a figure believable: it must agree with something that was found another way.

A check returns a sentence that begins with `ok`, `WRONG` or `not checked`.
"""

from __future__ import annotations

import ast
import operator
from typing import Any

COUNTS = ("calls", "elements", "optimizer_steps", "parameters_with_gradient", "state_bytes", "held_bytes")
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def went_well(row: Any, part: str, result: dict[str, Any]) -> bool:
    """Whether the part ended as the table expects."""
    if part != "run":
        return bool(result.get("census")) and result["exit_code"] == 0
    verdict = result.get("verdict")
    if not verdict:
        return False
    return bool(verdict["verdict"] in ("fits", "tight") if row.expect == "fits" else verdict["verdict"] == row.expect)


def arithmetic(text: str) -> int:
    """The value of a product or sum of numbers."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.BinOp):
            return float(OPERATORS[type(node.op)](value(node.left), value(node.right)))
        raise ValueError(f"not arithmetic: `{text}`")

    return int(value(ast.parse(text, mode="eval").body))


def counted_peak(results: dict[str, Any]) -> int | None:
    """PyTorch's own counter at the end of the whole run, of the rank that has the most."""
    counts = (results.get("whole") or {}).get("census", [])
    return max((c["max_memory_allocated"] for c in counts if "max_memory_allocated" in c), default=None)


def verdict_peak(results: dict[str, Any]) -> int | None:
    """The allocated bytes of the verdict."""
    verdict = (results.get("run") or {}).get("verdict")
    return int(verdict["peak"]["allocated_bytes"]) if verdict else None


def peak(results: dict[str, Any]) -> int | None:
    """The figure of a script: the verdict's, or where none was asked for the counter."""
    usual = verdict_peak(results)
    return counted_peak(results) if usual is None else usual


def counters(row: Any, results: dict[str, Any]) -> str:
    """PyTorch's own counter at the end of a whole run without labels, against the verdict of a usual run."""
    said, usual = counted_peak(results), verdict_peak(results)
    if said is None or usual is None:
        return "not checked: only one of the two runs"
    if said == usual:
        return "ok: equal to max_memory_allocated of the whole run"
    difference = said / usual - 1 if usual else float("inf")
    if row.counters_differ:
        return f"ok, differs: {row.counters_differ} ({difference:+.2%})"
    return f"WRONG: max_memory_allocated of the whole run is {difference:+.2%}"


def first_difference(on_cpu: dict[str, Any], on_device: dict[str, Any]) -> str | None:
    """The first count in which two censuses differ."""
    for name in COUNTS:
        left, right = on_cpu[name], on_device[name]
        if isinstance(left, dict):
            for key in sorted({*left, *right}):
                if left.get(key, 0) != right.get(key, 0):
                    return f"{name} of {key}: {right.get(key, 0):,} where the CPU has {left.get(key, 0):,}"
        elif left != right:
            return f"{name}: {right} where the CPU has {left}"
    return None


def census(row: Any, results: dict[str, Any]) -> str:
    """Work done on the virtual device, against that of a real run on the CPU."""
    if row.without_cpu:
        return f"not checked: {row.without_cpu}"
    device = results.get("whole", {}).get("census") or []
    cpu = results.get("cpu", {}).get("census") or []
    if not cpu or results["cpu"]["exit_code"] != 0:
        return "not checked: did not run on the CPU"
    if len(device) != len(cpu):
        return "not checked: no whole run"
    for left, right in zip(cpu, device):
        difference = first_difference(left, right)
        if difference:
            return f"ok, differs: {row.differs} ({difference})" if row.differs else f"WRONG: {difference}"
    return "ok: work, gradients and states as on the CPU"


def bounds(row: Any, results: dict[str, Any], others: dict[str, Any]) -> list[str]:
    """The peak against sums of parameters, gradients and states, and against what the table says."""
    usual = peak(results)
    if usual is None:
        return []
    said = []
    held = max((counts["held_bytes"] for counts in results.get("cpu", {}).get("census", [])), default=0)
    if held:
        held_text = f"{held:,} bytes of parameters, gradients and states"
        said.append(f"ok: at least {held_text}" if usual >= held else f"WRONG: less than {held_text}")
    if row.at_least:
        wanted = arithmetic(row.at_least)
        said.append(f"{'ok' if usual >= wanted else 'WRONG'}: at least {row.at_least} = {wanted:,} bytes")
    if row.at_most:
        wanted = arithmetic(row.at_most)
        said.append(f"{'ok' if usual <= wanted else 'WRONG'}: at most {row.at_most} = {wanted:,} bytes")
    if row.same_peak_as:
        other = peak(others.get(row.same_peak_as, {}))
        holds = other is not None and other - row.less_by == usual
        less = f", less {row.less_by:,} bytes of its own" if row.less_by else ""
        said.append(f"{'ok' if holds else 'WRONG'}: the same peak as {row.same_peak_as}{less}")
    return said


def of(row: Any, results: dict[str, Any], others: dict[str, Any]) -> list[str]:
    """All checks of a row that ran."""
    return [counters(row, results), census(row, results), *bounds(row, results, others)]
