"""Embeddings with a triplet loss whose hard examples are mined on the device."""

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
labels = torch.arange(64, device=device) // 4
same = labels[:, None] == labels[None]
for step in range(4):
    e = F.normalize(model(torch.randn(64, 256, device=device)), dim=1)
    distance = torch.cdist(e, e)
    farthest = distance.masked_fill(~same, -1).argmax(1)
    nearest = distance.masked_fill(same, 1e9).argmin(1)
    hard = distance.gather(1, farthest[:, None]) - distance.gather(1, nearest[:, None])
    loss = F.relu(hard + 0.2).mean()
    pairs = distance[same & ~torch.eye(64, dtype=torch.bool, device=device)]
    loss = loss + 0.01 * pairs.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), pairs.shape)
