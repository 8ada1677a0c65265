"""The mistake of many: predictions of a validation set kept with their graphs, because no_grad was forgotten."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)).to(device)
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(1024, 256), torch.randint(0, 10, (1024,))
for epoch in range(2):
    for i in range(0, 256, 64):
        loss = nn.functional.cross_entropy(model(x[i : i + 64].to(device)), y[i : i + 64].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    predictions = []
    for i in range(0, 1024, 64):
        predictions.append(model(x[i : i + 64].to(device)))
    correct = (torch.cat(predictions).argmax(1).cpu() == y).float().mean().item()
    model.train()
    print(epoch, correct)
