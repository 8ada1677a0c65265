"""What watching costs: the GPT-2 example with labels, without them, and on the device alone, after `import torch`.

    python bench/overhead/run.py [--python PYTHON] [--oomproof OOMPROOF] [--runs N] [--steps N]

The three sides run the same script on the same virtual device for the same steps, and differ in what watches:

    labels   the agent as `oomproof run` starts it, with roles, modules, phases and source lines
    agent    the agent with labels off: files are redirected, steps are counted
    bare     the device alone, without the agent

All initialize the model for real and write their checkpoint below a temporary folder, so that none is spared work
that another does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import settings  # noqa: E402
from timing import Finished, ratio, run, spread, take_turns  # noqa: E402

SCRIPT = HERE.parent.parent / "examples" / "train_gpt2.py"
# In the first steps PyTorch makes its allocations, the optimizer its state and the agent its ids.
WARM_UP_STEPS = 3


def marks(finished: Finished) -> list[tuple[str, float, float]]:
    for line in reversed(finished.err.splitlines()):
        if line.startswith("MARKS"):
            return [(text, wall, cpu) for text, wall, cpu in json.loads(line.removeprefix("MARKS"))]
    sys.exit(f"the script said nothing of its time:\n{finished.err[-4000:]}")


def steps_of(finished: Finished, clock: int) -> list[float]:
    at = [mark[clock] for mark in marks(finished) if mark[0].startswith("step")]
    return [after - before for before, after in zip(at, at[1:], strict=False)][WARM_UP_STEPS:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.environ.get("OOMPROOF_TEST_PYTHON", "python3"))
    parser.add_argument("--oomproof", default=os.environ.get("OOMPROOF_BIN", "target/release/oomproof"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--script", type=Path, default=SCRIPT, help="prints a line that begins with `step` each step")
    parser.add_argument("arguments", nargs="*", help="of the script, after `--`; by default those of the example")
    arguments = parser.parse_args()

    known = settings.of_a_run(arguments.oomproof, arguments.python, gpu="h100")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        own = arguments.arguments or ["--steps", str(arguments.steps), "--out", str(place / "gpt2.pt")]
        script = [str(HERE / "timed.py"), str(arguments.script), *own]

        def agent(*, labels: bool) -> Finished:
            settings_of_run = known.write(place, full=True, labels=labels, real_init=True, allow_writes=True)
            return run([arguments.python, *script], env=known.environment(settings_of_run), folder=place)

        def bare() -> Finished:
            settings_of_run = known.write(place)
            loader = [str(HERE.parent / "device_only.py"), known.device, known.stand_ins, str(settings_of_run)]
            return run([arguments.python, *loader, *script], folder=place)

        done = take_turns(
            {"labels": lambda: agent(labels=True), "agent": lambda: agent(labels=False), "bare": bare},
            runs=arguments.runs,
        )

    for clock, clock_name in ((1, "passed"), (2, "of CPU")):
        total = {name: [marks(one)[-1][clock] for one in finished] for name, finished in done.items()}
        step = {
            name: [1000 * statistics.median(steps_of(one, clock)) for one in finished]
            for name, finished in done.items()
        }
        for figures, what in ((total, "from import to end, seconds"), (step, "one step, ms")):
            print(f"{f'{what} {clock_name}':40} {'least':>8} {'median':>8} {'most':>8}   / bare")
            for name, values in figures.items():
                print(f"  {name:38} {spread(values)}   {ratio(values, figures['bare'])}")


if __name__ == "__main__":
    main()
