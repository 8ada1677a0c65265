"""One call of the virtual device beside the PyTorch operation that makes it.

    cargo bench -p oomproof-vgpu --bench calls
    python bench/calls/run.py [--python PYTHON] [--oomproof OOMPROOF] [--criterion FOLDER]

The first command times the device's functions alone; this script times PyTorch's operations on the device and prints
what part of each is PyTorch's own. FOLDER is where the first left its estimates, `target/criterion`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import settings  # noqa: E402
from timing import run  # noqa: E402

# An operation makes its one weighty call and small ones, of which these are a generous count.
SMALL = {"stream/cudaGetDevice": 4, "stream/cudaGetLastError": 2, "stream/cudaStreamIsCapturing": 2}
OF_OPERATION = {
    "allocate_and_free": "allocation/block_and_back",
    "add_out": "launch/elementwise",
    "fill": "launch/fill",
    "sum_out": "launch/reduction",
    "foreach_add_36": "launch/multi_tensor",
    "copy_from_host": "copy/host_to_device/8",
    "copy_to_host": "copy/device_to_host/8",
    "event_record": "stream/cudaEventRecord",
}


def estimates(folder: Path) -> dict[str, float]:
    """Median nanoseconds of each timed call."""
    found = {}
    for file in folder.glob("**/new/estimates.json"):
        name = json.loads(file.with_name("benchmark.json").read_text())["full_id"]
        found[name] = json.loads(file.read_text())["median"]["point_estimate"]
    return found


def torch_figures(arguments: argparse.Namespace) -> dict[str, float]:
    known = settings.of_a_run(arguments.oomproof, arguments.python, gpu="h100")
    with tempfile.TemporaryDirectory() as folder:
        run_json = known.write(Path(folder))
        finished = run(
            [
                arguments.python,
                str(HERE.parent / "device_only.py"),
                known.device,
                known.stand_ins,
                str(run_json),
                str(HERE / "torch_own.py"),
            ]
        )
    line = next(line for line in finished.err.splitlines() if line.startswith("FIGURES"))
    return dict(json.loads(line.removeprefix("FIGURES")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.environ.get("OOMPROOF_TEST_PYTHON", "python3"))
    parser.add_argument("--oomproof", default=os.environ.get("OOMPROOF_BIN", "target/release/oomproof"))
    parser.add_argument("--criterion", type=Path, default=Path("target/criterion"))
    arguments = parser.parse_args()

    device = estimates(arguments.criterion)
    if not device:
        sys.exit(f"`{arguments.criterion}` has no estimates\nhint: run `cargo bench -p oomproof-vgpu --bench calls`")
    small = sum(count * device[name] for name, count in SMALL.items())
    head = f"{'operation':20} {'torch + device':>15} {'device call':>12} {'small calls':>12}"
    print(f"{head} {'device / own work of torch':>27}")
    for operation, whole in torch_figures(arguments).items():
        call = device[OF_OPERATION[operation]]
        part = call + small
        own = whole - part
        ratio = f"{part / own:.2f}" if own > 0 else "the figures contradict each other"
        print(f"{operation:20} {whole:12.0f} ns {call:9.0f} ns {small:9.0f} ns {ratio:>27}")


if __name__ == "__main__":
    main()
