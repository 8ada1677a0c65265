"""A plan as a file, as a mapping, or as it came from the command line.

The Python that trains may be older than the standard library's reader of TOML, so the same plan is also read as JSON.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple, Union

from .refusal import PlanRefused

SCHEMA = 1


@dataclass(frozen=True)
class Plan:
    """Levers with their parameters, in the order in which they are applied, and what must be true for them."""

    levers: List[Tuple[str, Dict[str, Any]]]
    expects: Dict[str, Any] = field(default_factory=dict)

    def parameters(self, lever: str) -> Dict[str, Any]:
        return next((parameters for name, parameters in self.levers if name == lever), {})


PlanLike = Union[Plan, str, "PathLike[str]", Mapping[str, Any]]


def read(plan: PlanLike) -> Plan:
    """The plan in a file (TOML or JSON) or a mapping.

    Raises:
        PlanRefused: It is no plan.
        OSError: The file cannot be read.
    """
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, Mapping):
        return _from_mapping(plan)
    path = Path(plan)
    text = path.read_text(encoding="utf-8")
    try:
        whole = json.loads(text) if path.suffix == ".json" else _toml(text)
    except ValueError as error:
        raise PlanRefused(f"{path} is no plan: {error}") from error
    return _from_mapping(whole)


def _from_mapping(whole: Mapping[str, Any]) -> Plan:
    schema = whole.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise PlanRefused(f"the plan has schema {schema}, and this version reads {SCHEMA}")
    entries = whole.get("levers", whole.get("lever", []))
    if not isinstance(entries, list):
        raise PlanRefused("the levers of the plan are no list")
    levers: List[Tuple[str, Dict[str, Any]]] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise PlanRefused(f"a lever of the plan has no name: {entry!r}")
        if any(name == entry["name"] for name, _ in levers):
            raise PlanRefused("it is in the plan twice", lever=entry["name"])
        levers.append((entry["name"], {key: value for key, value in entry.items() if key != "name"}))
    return Plan(levers=levers, expects=dict(whole.get("expects") or {}))


def _toml(text: str) -> Dict[str, Any]:
    # Python 3.10 has no reader of its own; the one that became Python's is often there.
    for name in ("tomllib", "tomli"):
        try:
            reader = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        whole: Dict[str, Any] = reader.loads(text)
        return whole
    raise PlanRefused("a plan in TOML needs Python 3.11 or the package `tomli`; the same plan as JSON is read by any")
