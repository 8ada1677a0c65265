"""The tables of the grid: for each tool how many cells it really fits, at what cost, and what it broke on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from judge import Judged

NEAR = 0.02
OURS = "oomproof fit"


def line(judged: Judged) -> str:
    """One cell of one tool, while the grid runs."""
    over = f"{judged.over_best:+.1%}" if judged.over_best is not None else "-"
    return (
        f"{judged.workload:<13} cap {judged.cap} {judged.cap_bytes / 2**20:6.0f} MiB  "
        f"{judged.tool:<33} {'fits' if judged.fits else 'no':<5} {over:>8}  {judged.plan[:90]}"
    )


def is_feasible(judged: Iterable[Judged]) -> bool:
    """Whether anything is known that fits and is still the same training."""
    return any(each.best_ns is not None or (each.fits and each.keeps_batch) for each in judged)


def best_known(judged: Iterable[Judged]) -> int | None:
    """The least time of all that fits and keeps the batch: of the lattice and of the tools on eager code."""
    times = [
        time
        for each in judged
        for time in (each.best_ns, each.step_ns if each.fits and each.keeps_batch and not compiled(each) else None)
        if time is not None
    ]
    return min(times, default=None)


def compiled(judged: Judged) -> bool:
    """Whether the tool's time is that of kernels that the script does not have."""
    return "inductor" in judged.tool


def document(judged: list[Judged], title: str) -> str:
    """The tables in Markdown."""
    by_cell: dict[tuple[str, int], list[Judged]] = {}
    for each in judged:
        by_cell.setdefault(each.cell, []).append(each)
    feasible = {cell for cell, several in by_cell.items() if is_feasible(several)}
    tools = list(dict.fromkeys(each.tool for each in judged))
    text = [
        f"{len(by_cell)} cells of {len({name for name, _ in by_cell})} workloads, {len(feasible)} of them feasible; "
        f"{title}.",
        "",
        "| tool | cells that truly fit | within 2 % of the best known | median cost over the best | trials | "
        "failed trials | changed batch | gradients equal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for tool in tools:
        of_tool = {each.cell: each for each in judged if each.tool == tool}
        text.append(_row(tool, of_tool, feasible, by_cell))
    for title, chosen in (
        ("tuning", lambda each: not each.held_out),
        ("held out", lambda each: each.held_out),
    ):
        text += ["", *_part(f"`{OURS}`, cells {title}", judged, chosen, feasible, by_cell)]
    text += ["", *_losses(by_cell, feasible)]
    text += ["", *_infeasible(by_cell, feasible)]
    return "\n".join(text) + "\n"


def _row(
    tool: str,
    of_tool: dict[tuple[str, int], Judged],
    feasible: set[tuple[str, int]],
    by_cell: dict[tuple[str, int], list[Judged]],
) -> str:
    fitting = [cell for cell in feasible if cell in of_tool and of_tool[cell].fits]
    over = []
    for cell in fitting:
        best, own = best_known(by_cell[cell]), of_tool[cell].step_ns
        if best and own:
            over.append(own / best - 1)
    same = [of_tool[cell] for cell in fitting if of_tool[cell].keeps_batch]
    near = sum(
        1
        for each in same
        if each.step_ns and (best := best_known(by_cell[each.cell])) is not None and each.step_ns <= best * (1 + NEAR)
    )
    known = [each.gradients_equal for each in of_tool.values() if each.gradients_equal is not None]
    total = len(feasible & set(of_tool))
    return (
        f"| {tool} | {len(fitting)} of {total} | {near} of {total} | "
        f"{f'{median(over):+.1%}' if over else '-'} | {sum(each.trials for each in of_tool.values())} | "
        f"{sum(each.failed_trials for each in of_tool.values())} | "
        f"{sum(1 for cell in fitting if not of_tool[cell].keeps_batch)} | "
        f"{sum(known)} of {len(known)} |"
    )


def _part(
    title: str,
    judged: list[Judged],
    chosen: Callable[[Judged], bool],
    feasible: set[tuple[str, int]],
    by_cell: dict[tuple[str, int], list[Judged]],
) -> list[str]:
    own = [each for each in judged if each.tool == OURS and chosen(each) and each.cell in feasible]
    if not own:
        return []
    fitting = [each for each in own if each.fits]
    near = [
        each
        for each in fitting
        if each.step_ns and (best := best_known(by_cell[each.cell])) is not None and each.step_ns <= best * (1 + NEAR)
    ]
    return [f"{title}: {len(fitting)} of {len(own)} feasible cells fit, {len(near)} within 2 % of the best known."]


def _losses(by_cell: dict[tuple[str, int], list[Judged]], feasible: set[tuple[str, int]]) -> list[str]:
    text = [
        f"Cells where `{OURS}` is not the best:",
        "",
        "| workload | cap | its plan | over the best | best | by |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for cell in sorted(feasible):
        several = by_cell[cell]
        own = next((each for each in several if each.tool == OURS), None)
        best = best_known(several)
        if own is None or best is None:
            continue
        if own.fits and own.step_ns and own.step_ns <= best * (1 + NEAR):
            continue
        others = [
            (each.step_ns, each.plan, each.tool)
            for each in several
            if each.tool != OURS and each.fits and each.keeps_batch and each.step_ns and not compiled(each)
        ]
        if own.best_ns:
            others.append((own.best_ns, own.best_plan or "", "the lattice"))
        _, plan, by = min(others)
        over = f"{own.step_ns / best - 1:+.1%}" if own.fits and own.step_ns else "does not fit"
        text.append(f"| {cell[0]} | {cell[1]}: {own.cap_bytes / 2**20:.0f} MiB | {own.plan} | {over} | {plan} | {by} |")
    return text


def _infeasible(by_cell: dict[tuple[str, int], list[Judged]], feasible: set[tuple[str, int]]) -> list[str]:
    text = []
    for cell in sorted(set(by_cell) - feasible):
        for each in by_cell[cell]:
            if each.tool == OURS:
                floor = each.floor_bytes
                said = f"{floor / 2**20:.0f} MiB" if floor else "not named"
                text.append(f"- {cell[0]}, cap {cell[1]}, {each.cap_bytes / 2**20:.0f} MiB: {each.plan}; floor {said}")
    return ["Cells for which nothing is known that fits:", "", *text] if text else []
