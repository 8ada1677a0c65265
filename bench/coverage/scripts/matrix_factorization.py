"""Two large embeddings factorizing ratings, with sparse gradients and plain SGD."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
users = nn.Embedding(100_000, 64, sparse=True).to(device)
items = nn.Embedding(20_000, 64, sparse=True).to(device)
optimizer = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.1)
ratings = TensorDataset(torch.randint(0, 100_000, (8192,)), torch.randint(0, 20_000, (8192,)), torch.rand(8192))
for u, i, r in DataLoader(ratings, batch_size=2048, shuffle=True):
    u, i, r = u.to(device), i.to(device), r.to(device)
    loss = ((users(u) * items(i)).sum(-1) - r).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
