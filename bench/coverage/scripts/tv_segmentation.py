"""DeepLabV3 with an auxiliary head, two learning rates, a confusion matrix kept on the device."""

import torch
import torchvision
from torch.nn import functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(
    weights=None, weights_backbone=None, num_classes=21, aux_loss=True
).to(device)
groups = [
    {"params": [p for n, p in model.named_parameters() if "backbone" in n], "lr": 0.001},
    {"params": [p for n, p in model.named_parameters() if "backbone" not in n], "lr": 0.01},
]
optimizer = torch.optim.SGD(groups, momentum=0.9)
confusion = torch.zeros(21, 21, dtype=torch.long, device=device)
for step in range(4):
    images = torch.randn(2, 3, 128, 128, device=device)
    target = torch.randint(0, 21, (2, 128, 128), device=device)
    target[:, :, :8] = 255
    out = model(images)
    loss = F.cross_entropy(out["out"], target, ignore_index=255)
    loss = loss + 0.5 * F.cross_entropy(out["aux"], target, ignore_index=255)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        valid = target != 255
        flat = target[valid] * 21 + out["out"].argmax(1)[valid]
        confusion += torch.bincount(flat, minlength=21 * 21).view(21, 21)
    print(step, loss.item(), int(confusion.sum()))
iou = confusion.diag() / (confusion.sum(0) + confusion.sum(1) - confusion.diag()).clamp_min(1)
print(iou.mean().item())
