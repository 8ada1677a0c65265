"""A radiance field: rays, samples along them, only occupied samples evaluated."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
field = nn.Sequential(nn.Linear(63, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4)).to(device)
occupied = torch.rand(32, 32, 32, device=device) > 0.5
optimizer = torch.optim.Adam(field.parameters(), lr=5e-4)


def encode(x):
    bands = 2.0 ** torch.arange(10, device=x.device)
    angles = (x[..., None, :] * bands[:, None]).flatten(-2)
    return torch.cat([x, angles.sin(), angles.cos()], -1)


for step in range(4):
    start, way = torch.rand(512, 3, device=device), torch.randn(512, 3, device=device) * 0.01
    t = torch.linspace(0, 1, 32, device=device)
    points = (start[:, None] + t[None, :, None] * way[:, None]).clamp(0, 0.999)
    cell = (points * 32).long()
    live = occupied[cell[..., 0], cell[..., 1], cell[..., 2]]
    values = torch.zeros(512, 32, 4, device=device)
    values[live] = field(encode(points[live]))
    density, color = values[..., 0].relu(), values[..., 1:].sigmoid()
    opacity = 1 - torch.exp(-density / 32)
    through = torch.cumprod(1 - opacity + 1e-10, 1)
    image = (opacity * through)[..., None].mul(color).sum(1)
    loss = (image - torch.rand(512, 3, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), int(live.sum()))
