"""Activations kept in pinned host memory between forward and backward."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(512, 512), nn.GELU())]).to(device)
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    x = torch.randn(1024, 512, device=device)
    with torch.autograd.graph.save_on_cpu(pin_memory=device == "cuda"):
        loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
