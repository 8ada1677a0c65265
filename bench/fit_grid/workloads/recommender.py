"""A recommender: the tables of embeddings, their gradients and states are nearly everything."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=16384)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
if options.small:
    options.batch = min(options.batch, 64)
    TABLES, ROWS, WIDTH, DENSE = 4, 50, 8, 13
else:
    TABLES, ROWS, WIDTH, DENSE = 26, 40000, 64, 13


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        self.bottom = nn.Sequential(nn.Linear(DENSE, 512), nn.ReLU(), nn.Linear(512, WIDTH), nn.ReLU())
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + WIDTH, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)
        )
        self.register_buffer("pairs", torch.tril_indices(TABLES + 1, TABLES + 1, -1), persistent=False)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        features = torch.stack([x, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], dim=1)
        products = features @ features.transpose(1, 2)
        crossed = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat((x, crossed), dim=1)).squeeze(1)


torch.manual_seed(0)
rows = 4 * options.batch
data = TensorDataset(torch.randn(rows, DENSE), torch.randint(ROWS, (rows, TABLES)), torch.randint(2, (rows,)).float())
loader = DataLoader(data, batch_size=options.batch)
model = Recommender().to(options.device)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
for step, (dense, sparse, clicked) in enumerate(loader):
    dense, sparse, clicked = (part.to(options.device) for part in (dense, sparse, clicked))
    loss = F.binary_cross_entropy_with_logits(model(dense, sparse), clicked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
