"""Runs every program on the device and on the model; prints one line of JSON a program.

The script of the tests: `oomproof run --full --gpu NAME run_all.py [--slow] [NAME...]`.
"""

import gc
import json
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import allocator_programs  # noqa: F401
import operator_programs  # noqa: F401
import torch
import training_programs  # noqa: F401
from model import Model
from program import Program, marks

gc.disable()  # What reference counting frees is freed at once; a collection in between would free at random.
RELEASE = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
names = [argument for argument in sys.argv[1:] if argument != "--slow"]
chosen = [each for each in Program.all if each.__name__ in names or (not names and not each.is_slow)]
if "--slow" in sys.argv:
    chosen = Program.all
for program in chosen:
    model = Model(RELEASE, torch.cuda.get_device_capability())
    program.rules(model)
    try:
        found = marks(program)
    except Exception:
        found = [{"error": traceback.format_exc(limit=4)}]
    gc.collect()
    print(json.dumps({"program": program.__name__, "device": found, "rules": model.marks}), flush=True)
