"""Sparse products in COO and CSR: propagation over an adjacency matrix and a pruned layer."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
n = 2000
index = torch.randint(0, n, (2, 10000))
adjacency = torch.sparse_coo_tensor(index, torch.ones(10000), (n, n)).coalesce().to(device)
degree = torch.sparse.sum(adjacency, 1).to_dense().clamp_min(1)
rows = adjacency.to_sparse_csr()
layers = nn.ModuleList([nn.Linear(64, 128), nn.Linear(128, 10)]).to(device)
optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2)
x, y = torch.randn(n, 64, device=device), torch.randint(0, 10, (n,), device=device)
for step in range(4):
    h = torch.sparse.mm(adjacency, layers[0](x)) / degree[:, None]
    out = torch.sparse.mm(adjacency, layers[1](h.relu())) / degree[:, None]
    loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
with torch.no_grad():
    print((rows @ x).shape, adjacency._nnz(), rows.values().shape)
