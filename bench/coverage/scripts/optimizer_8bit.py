"""8-bit Adam of bitsandbytes, embeddings kept in 32 bits."""

import bitsandbytes as bnb
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(bnb.nn.StableEmbedding(2000, 256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 2000)).cuda()
optimizer = bnb.optim.AdamW8bit(model.parameters(), lr=1e-3)
for step in range(4):
    ids = torch.randint(0, 2000, (8, 64), device="cuda")
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
