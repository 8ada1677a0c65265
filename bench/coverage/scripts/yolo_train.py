"""Ultralytics YOLO trained on drawn rectangles."""

from pathlib import Path

import numpy as np
from PIL import Image
from ultralytics import YOLO

root = Path("shapes").resolve()
random = np.random.default_rng(0)
for part, count in (("train", 16), ("val", 8)):
    (root / "images" / part).mkdir(parents=True, exist_ok=True)
    (root / "labels" / part).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        picture = random.integers(0, 255, (128, 128, 3), dtype=np.uint8)
        Image.fromarray(picture).save(root / "images" / part / f"{i}.png")
        rows = [f"{random.integers(0, 2)} {x:.3f} {y:.3f} 0.2 0.2" for x, y in random.uniform(0.2, 0.8, (3, 2))]
        (root / "labels" / part / f"{i}.txt").write_text("\n".join(rows))
(root / "data.yaml").write_text(f"path: {root}\ntrain: images/train\nval: images/val\nnames: [circle, square]\n")

import torch  # noqa: E402

device = 0 if torch.cuda.is_available() else "cpu"
model = YOLO("yolov8n.yaml")
model.train(
    data=str(root / "data.yaml"),
    epochs=2,
    imgsz=128,
    batch=4,
    device=device,
    workers=0,
    amp=False,
    plots=False,
    verbose=False,
)
