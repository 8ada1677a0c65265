"""Losses and layers of linear algebra: nuclear norm, orthogonal weights, log determinants, least squares."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal, spectral_norm

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(
    orthogonal(nn.Linear(64, 64)), nn.ReLU(), spectral_norm(nn.Linear(64, 64)), nn.ReLU(), nn.Linear(64, 16)
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(128, 64, device=device)
    features = model(x)
    nuclear = torch.linalg.svdvals(features).sum()
    covariance = features.T @ features / 128 + 0.1 * torch.eye(16, device=device)
    spread = torch.linalg.slogdet(covariance).logabsdet
    fit = torch.linalg.lstsq(covariance, features.T).solution.square().mean()
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), features.T, upper=False)
    values = torch.linalg.eigvalsh(covariance)
    loss = 0.01 * nuclear - spread + 0.01 * fit + white.square().mean() + values.max()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
