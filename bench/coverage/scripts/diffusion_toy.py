"""A diffusion model of points in the plane, with classifier-free guidance when sampling."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
beta = torch.linspace(1e-4, 0.02, 100, device=device)
kept = torch.cumprod(1 - beta, 0)
embed, classes = nn.Embedding(100, 32).to(device), nn.Embedding(5, 32).to(device)
net = nn.Sequential(nn.Linear(66, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 2)).to(device)
optimizer = torch.optim.Adam([*net.parameters(), *embed.parameters(), *classes.parameters()], lr=1e-3)
for step in range(5):
    x = torch.randn(512, 2, device=device)
    label = torch.randint(0, 4, (512,), device=device)
    label[torch.rand(512, device=device) < 0.1] = 4
    t = torch.randint(0, 100, (512,), device=device)
    noise = torch.randn_like(x)
    noisy = kept[t].sqrt()[:, None] * x + (1 - kept[t]).sqrt()[:, None] * noise
    loss = (net(torch.cat([noisy, embed(t), classes(label)], 1)) - noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
with torch.no_grad():
    x = torch.randn(64, 2, device=device)
    for t in reversed(range(100)):
        time = embed.weight[t].expand(64, -1)
        wanted = net(torch.cat([x, time, classes.weight[0].expand(64, -1)], 1))
        free = net(torch.cat([x, time, classes.weight[4].expand(64, -1)], 1))
        x = (x - beta[t] / (1 - kept[t]).sqrt() * (3 * wanted - 2 * free)) / (1 - beta[t]).sqrt()
        if t > 0:
            x = x + beta[t].sqrt() * torch.randn_like(x)
print(x.std().item())
