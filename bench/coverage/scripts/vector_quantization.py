"""A VQ-VAE with codes replaced when they are not used, counts kept on the device."""

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
encoder = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 4, 2, 1)).to(device)
decoder = nn.Sequential(nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1)).to(device)
codes = nn.Embedding(256, 64).to(device)
counts = torch.zeros(256, device=device)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *codes.parameters()], lr=1e-3)
for step in range(4):
    x = torch.randn(8, 3, 32, 32, device=device)
    z = encoder(x).permute(0, 2, 3, 1)
    flat = z.reshape(-1, 64)
    picks = torch.cdist(flat, codes.weight).argmin(1)
    quantized = codes(picks).view_as(z)
    straight = z + (quantized - z).detach()
    out = decoder(straight.permute(0, 3, 1, 2))
    loss = F.mse_loss(out, x) + F.mse_loss(quantized, z.detach()) + 0.25 * F.mse_loss(z, quantized.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    counts.mul_(0.9).add_(torch.bincount(picks, minlength=256))
    dead = torch.nonzero(counts < 0.5).flatten()
    with torch.no_grad():
        if len(dead):
            codes.weight[dead] = flat[torch.randint(0, len(flat), (len(dead),), device=device)]
    print(step, loss.item(), len(picks.unique()) <= 256)
