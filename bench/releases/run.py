"""What real releases of PyTorch wrote for one small program, against what they write on the virtual GPU.

    python bench/releases/run.py --data FOLDER --oomproof OOMPROOF --python PYTHON [--python PYTHON]...

FOLDER holds `allocator_outputs/VERSION.stats.json`, `.summary.txt` and `.oom.txt` of a card with 16 GiB and compute
capability 9.0. Each PYTHON has the torch of one release. Every figure of `memory_stats()`, every line of
`memory_summary()` and the text of the error are compared; in the text, the memory of the driver and of other
processes is left out, because that machine's context was of another size. `program.py` was made after what the
releases recorded: their traces, and for calls that leave no trace their counters.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OF_THE_DRIVER = re.compile(r" of which [^ ]+ [^ ]+ is free\. (Process \d+ has [^.]+\.\d+ \S+ memory in use\. )*")
OF_THE_PROCESS = re.compile(r"(Including non-PyTorch memory, this process|Process \d+) has [\d.]+ \S+ memory in use\. ")


def release_of(python: str) -> str:
    """The release of torch that an interpreter has, without importing it."""
    program = "import importlib.metadata as m; print(m.version('torch').split('+')[0])"
    return subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def virtual(python: str, oomproof: str) -> dict[str, Any]:
    """What the program says on a virtual card."""
    card = ["--gpu", "h100", "--memory", "16GiB"]
    command = [oomproof, "run", "--full", "--json", *card, "--python", python, str(HERE / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stderr.splitlines():
        if line.startswith("SAID "):
            said: dict[str, Any] = json.loads(line[5:])
            return said
    sys.exit(f"error: the program failed with {python}\n\n{done.stderr[-2000:]}")


def without_driver(text: str) -> str:
    """The error's text without what the driver said."""
    return OF_THE_PROCESS.sub("", OF_THE_DRIVER.sub(" ", text)).strip()


def compare(folder: Path, version: str, said: dict[str, Any]) -> list[str]:
    """A sentence for each difference."""
    found = []
    real = json.loads((folder / f"{version}.stats.json").read_text())
    for key in sorted(real.keys() | said["stats"].keys()):
        if real.get(key) != said["stats"].get(key):
            found.append(f"{key}: {real.get(key)} on the real one, {said['stats'].get(key)} on the virtual")
    texts = {
        "summary": ((folder / f"{version}.summary.txt").read_text().strip(), said["summary"].strip()),
        "oom": (without_driver((folder / f"{version}.oom.txt").read_text()), without_driver(said["oom"])),
    }
    for name, (there, here) in texts.items():
        lines = zip(there.splitlines(), here.splitlines())
        different = [f"{name}: {one!r}, virtual {other!r}" for one, other in lines if one.rstrip() != other.rstrip()]
        if len(there.splitlines()) != len(here.splitlines()):
            different.append(f"{name}: {len(there.splitlines())} lines, virtual {len(here.splitlines())}")
        found += different
    return found


def main() -> None:
    """Prints a line for each release, and its differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--oomproof", default=os.environ.get("OOMPROOF_BIN", "oomproof"))
    parser.add_argument("--python", action="append")
    arguments = parser.parse_args()
    for python in arguments.python or [os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)]:
        version = release_of(python)
        folder = arguments.data / "allocator_outputs"
        if not (folder / f"{version}.stats.json").is_file():
            print(f"{version:<8} no data of this release")
            continue
        said = virtual(python, arguments.oomproof)
        differences = compare(folder, version, said)
        print(f"{version:<8} {len(said['stats'])} figures, {len(differences)} differences")
        for each in differences:
            print(f"         {each}")


if __name__ == "__main__":
    main()
