"""`oomproof fit`: the script and the card, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from cells import Cell
from decision import Decision
from measure import REPOSITORY, Measured, Variant, key

#: Exit codes of `fit`: a plan fits, none does, it is not known.
FITS, NONE_FITS = 0, 10


def decide(cell: Cell, measured: Measured) -> Decision:
    """The chosen plan of one whole `oomproof fit`."""
    result = _kept(cell, measured)
    said = result["said"]
    if said is None:
        return Decision(None, trials=1, failed_trials=1, reason=f"fit ended with {result['exit_code']}")
    trials, failed, floor = said.get("tried", 0), said.get("failed", 0), said.get("floor_bytes")
    if not said["fits"] or (said["chosen"] is None and not said["fits_as_it_is"]):
        return Decision(None, trials=trials, failed_trials=failed, reason="none fits", floor_bytes=floor)
    chosen = said["plans"][said["chosen"]] if said["chosen"] is not None else {"levers": []}
    claimed = {
        **{name: chosen.get(name) for name in ("peak_allocated_bytes", "peak_reserved_bytes", "numerics")},
        "seconds": result["seconds"],
    }
    variant = Variant(cell.workload, {"kind": "ours", "levers": chosen["levers"]})
    return Decision(variant, trials=trials, failed_trials=failed, floor_bytes=floor, claimed=claimed)


def _kept(cell: Cell, measured: Measured) -> dict[str, Any]:
    """What fit said, from the state where this build has been asked before."""
    where = measured.where
    asked = {"cap": cell.reserved_bytes, "fit": where.program, "plain": key(_empty(cell), where)}
    name = sha256(json.dumps(asked).encode()).hexdigest()[:16]
    file = where.state / "fit" / f"{cell.workload.name}-{cell.number}-{name}.json"
    if file.exists():
        return dict(json.loads(file.read_text()))
    file.parent.mkdir(exist_ok=True)
    result = _ask(cell, measured)
    file.write_text(json.dumps(result, indent=1))
    return result


def _empty(cell: Cell) -> Variant:
    return Variant(cell.workload, {"kind": "ours", "levers": []})


def _ask(cell: Cell, measured: Measured) -> dict[str, Any]:
    where = measured.where
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        finished = subprocess.run(
            [
                *[where.oomproof, "fit", "--json", "--gpu", where.gpu, "--python", where.python],
                *["--memory", f"{cell.reserved_bytes + where.context_bytes}B", str(cell.workload.script)],
            ],
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            timeout=1800,
        )
    try:
        said = json.loads(finished.stdout)
    except ValueError:
        said = None
    return {
        "said": said,
        "exit_code": finished.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "last_lines": finished.stderr.splitlines()[-20:],
    }


def apply(answer: dict[str, Any]) -> None:
    """Has the levers applied by oomproof's own package, as `oomproof run --plan` does."""
    import importlib.util

    import torch

    # By its folder and under another name, as the agent loads it, because oomproof need not be installed here.
    folder = Path(os.environ.get("FIT_GRID_LEVERS", REPOSITORY / "python/oomproof/levers"))
    spec = importlib.util.spec_from_file_location(
        "_oomproof_levers", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    levers = importlib.util.module_from_spec(spec)
    sys.modules["_oomproof_levers"] = levers
    spec.loader.exec_module(levers)

    def refused(error: Exception) -> None:
        raise SystemExit(f"refused: {error}")

    levers.install(
        {"levers": answer["levers"]},
        values_are_known=not torch.cuda.is_available(),
        on_applied=lambda: None,
        on_refused=refused,
    )
