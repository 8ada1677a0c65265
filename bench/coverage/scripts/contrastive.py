"""SimCLR with a ResNet and a queue of old keys as MoCo has it."""

import copy

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
encoder = torchvision.models.resnet18(num_classes=128)
encoder.fc = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
encoder.to(device)
slow = copy.deepcopy(encoder).requires_grad_(False)
queue = F.normalize(torch.randn(128, 1024, device=device), dim=0)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.03, momentum=0.9)
place = 0
for step in range(4):
    one, two = torch.randn(2, 16, 3, 64, 64, device=device)
    q = F.normalize(encoder(one), dim=1)
    with torch.no_grad():
        for a, b in zip(slow.parameters(), encoder.parameters()):
            a.mul_(0.999).add_(b, alpha=0.001)
        order = torch.randperm(16, device=device)
        k = F.normalize(slow(two[order]), dim=1)[order.argsort()]
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.clone()], 1) / 0.07
    loss = F.cross_entropy(logits, torch.zeros(16, dtype=torch.long, device=device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    queue[:, place : place + 16] = k.T
    place = (place + 16) % 1024
    print(step, loss.item())
