"""The batch is doubled until the card is full, then training goes on with the last that fitted."""

import gc

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).to(device)
optimizer = torch.optim.AdamW(model.parameters())


def step(batch):
    x = torch.randn(batch, 1024, device=device)
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


batch = 4096
while device == "cuda":
    try:
        step(2 * batch)
    except torch.OutOfMemoryError:
        gc.collect()
        torch.cuda.empty_cache()
        break
    batch *= 2
print("batch", batch)
if device == "cuda":
    for _ in range(3):
        print(step(batch))
