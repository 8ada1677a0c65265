"""Training that is stopped, saved with all its state, and goes on in a new model."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


def make():
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)


def train(model, optimizer, scheduler, steps):
    for _ in range(steps):
        x = torch.randn(64, 512, device=device)
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(loss.item())


model, optimizer, scheduler = make()
train(model, optimizer, scheduler, 3)
torch.save(
    {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, "last.pt"
)
del model, optimizer, scheduler
state = torch.load("last.pt", map_location=device)
model, optimizer, scheduler = make()
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
scheduler.load_state_dict(state["scheduler"])
train(model, optimizer, scheduler, 3)
