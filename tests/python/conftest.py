"""Stand-ins for tests that import torch without the launcher: a torch that was installed without NVIDIA's libraries
needs something under their names, and the stand-ins need the virtual device, which without settings has no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def _make_standins() -> None:
    program = os.environ.get("OOMPROOF_BIN")
    if program is None or "OOMPROOF_TEST_STANDINS" in os.environ:
        return
    folder = Path(tempfile.mkdtemp(prefix="standins-"))
    script = folder / "empty.py"
    script.touch()
    # Any run leaves them in the cache.
    python = os.environ.get("OOMPROOF_TEST_PYTHON", sys.executable)
    command = [program, "run", "--gpu", "t4", "--python", python, str(script)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    orders = list(folder.glob("oomproof/standins/*/load_order.txt"))
    if len(orders) != 1:
        raise RuntimeError(f"`{' '.join(command)}` made no stand-ins and printed:\n{done.stderr}")
    (order,) = orders
    for library in [Path(program).with_name("liboomproof_vgpu.so"), *order.parent.glob("*.so*")]:
        (folder / library.name).symlink_to(library)
    (folder / "load_order.txt").write_text("liboomproof_vgpu.so\n" + order.read_text())
    os.environ["OOMPROOF_TEST_STANDINS"] = str(folder)


_make_standins()
