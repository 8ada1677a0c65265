"""Fine-tuning of a timm model as it was measured on a real GPU: prints the peak as a line of JSON.

Images come from the host each step, an evaluation follows the training, and the peak is that of the whole run, as in
the measurement.
"""

from __future__ import annotations

import argparse
import json

import timm
import torch

CLASSES = 45


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="pixels of a side")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", choices=("bfloat16", "autocast"), required=True)
    arguments = parser.parse_args()

    model = timm.create_model(arguments.model, num_classes=CLASSES, img_size=arguments.size)
    if arguments.checkpointing:
        model.set_grad_checkpointing()
    half = arguments.precision == "bfloat16"
    if half:
        model.bfloat16()
    model.cuda()
    if arguments.compile:
        model.compile(fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=False)

    def batch():
        images = torch.zeros(arguments.batch, 3, arguments.size, arguments.size)
        labels = torch.zeros(arguments.batch, dtype=torch.long)
        return (images.bfloat16() if half else images).pin_memory(), labels.pin_memory()

    def mixed():
        return torch.autocast("cuda", dtype=torch.bfloat16, enabled=not half)

    for number in range(4):
        images, labels = batch()
        with mixed():
            loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        scaler.scale(loss).backward()
        if number == 0:
            loss.item()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad(), mixed():
        for _ in range(2):
            model(batch()[0].cuda()).argmax(1).cpu()
    print(
        json.dumps(
            {
                "max_memory_allocated": torch.cuda.max_memory_allocated(),
                "max_memory_reserved": torch.cuda.max_memory_reserved(),
            }
        )
    )


if __name__ == "__main__":
    main()
