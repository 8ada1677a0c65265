"""Detection with torchvision: two-stage and one-stage networks, targets of different counts, evaluation."""

import argparse

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="fasterrcnn_mobilenet_v3_large_320_fpn")
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
sizes = {} if "320" in args.model or "ssd" in args.model else {"min_size": 160, "max_size": 200}
model = torchvision.models.get_model(args.model, weights=None, weights_backbone=None, num_classes=5, **sizes).to(device)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.005, momentum=0.9)


def target(count):
    corner = torch.rand(count, 2) * 80
    boxes = torch.cat([corner, corner + 20 + torch.rand(count, 2) * 60], 1)
    found = {"boxes": boxes.to(device), "labels": torch.randint(1, 5, (count,)).to(device)}
    if "mask" in args.model:
        found["masks"] = (torch.rand(count, 160, 192) > 0.5).to(torch.uint8).to(device)
    return found


model.train()
for step in range(3):
    images = [torch.rand(3, 160, 192, device=device) for _ in range(2)]
    losses = model(images, [target(2), target(5)])
    loss = sum(losses.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, {name: value.item() for name, value in losses.items()})
model.eval()
with torch.no_grad():
    for found in model(images):
        kept = found["scores"] > 0.5
        print(len(found["boxes"]), int(kept.sum()), found["boxes"][kept].cpu().shape)
