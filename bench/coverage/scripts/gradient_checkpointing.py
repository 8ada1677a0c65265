"""A deep network with every block checkpointed, in both ways, dropout included."""

import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


def block():
    return nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 1024), nn.GELU(), nn.Dropout(0.1), nn.Linear(1024, 256))


blocks = nn.ModuleList(block() for _ in range(8)).to(device)
optimizer = torch.optim.AdamW(blocks.parameters(), fused=device == "cuda")
for step in range(4):
    x = torch.randn(16, 64, 256, device=device, requires_grad=True)
    if "sequential" in sys.argv:
        y = checkpoint_sequential(nn.Sequential(*blocks), 4, x, use_reentrant=False)
    else:
        y = x
        for b in blocks:
            y = y + checkpoint(b, y, use_reentrant="reentrant" in sys.argv)
    loss = y.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
