"""A recommender with large embedding bags, dense and sparse features, an optimizer for each kind."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


class DLRM(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum", sparse=True) for n in rows)
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = (len(rows) + 1) * len(rows) // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense, ids, offsets):
        x = self.bottom(dense)
        all_ = torch.stack([x] + [table(i, o) for table, i, o in zip(self.tables, ids, offsets)], 1)
        products = all_ @ all_.transpose(1, 2)
        i, j = torch.tril_indices(all_.shape[1], all_.shape[1], -1, device=x.device)
        return self.top(torch.cat([x, products[:, i, j]], 1)).squeeze(1)


rows = [200_000, 50_000, 10_000, 1_000]
model = DLRM(rows, 32).to(device)
sparse = torch.optim.SparseAdam(list(model.tables.parameters()), lr=1e-3)
dense = torch.optim.Adagrad([*model.bottom.parameters(), *model.top.parameters()], lr=1e-2)
for step in range(4):
    x = torch.randn(256, 13, device=device)
    ids = [torch.randint(0, n, (256 * 4,)).to(device) for n in rows]
    offsets = [torch.arange(0, 1024, 4, device=device) for _ in rows]
    clicks = (torch.rand(256) < 0.3).float().to(device)
    loss = nn.functional.binary_cross_entropy_with_logits(model(x, ids, offsets), clicks)
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
    print(step, loss.item())
