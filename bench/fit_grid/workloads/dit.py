"""A diffusion transformer on latents: blocks modulated by time and class, a moving average of the weights."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, HEADS, SIDE = (8, 32, 4, 8) if options.small else (8, 384, 6, 32)
CHANNELS, PATCH, CLASSES = 4, 2, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"), nn.Linear(4 * WIDTH, WIDTH))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))

    def forward(self, x, condition):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(condition)[:, None].chunk(6, dim=-1)
        batch, length, _ = x.shape
        y = self.norm1(x) * (1 + scale1) + shift1
        q, k, v = self.qkv(y).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + gate1 * self.out(y)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(CHANNELS, WIDTH, PATCH, stride=PATCH)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (SIDE // PATCH) ** 2, WIDTH))
        self.time = nn.Sequential(nn.Linear(128, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.label = nn.Embedding(CLASSES, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final = nn.Linear(WIDTH, CHANNELS * PATCH * PATCH)

    def forward(self, x, time, label):
        angles = time[:, None] * torch.exp(-9.21 * torch.arange(64, device=x.device) / 64)
        condition = self.time(torch.cat((angles.sin(), angles.cos()), dim=-1)) + self.label(label)
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x, condition)
        x = self.final(x).view(len(x), SIDE // PATCH, SIDE // PATCH, CHANNELS, PATCH, PATCH)
        return x.permute(0, 3, 1, 4, 2, 5).reshape(-1, CHANNELS, SIDE, SIDE)


torch.manual_seed(0)
rows = 4 * options.batch
# Noise and times belong to the sample, so that cutting a batch changes none of them.
data = TensorDataset(
    torch.randn(rows, CHANNELS, SIDE, SIDE),
    torch.randn(rows, CHANNELS, SIDE, SIDE),
    torch.randint(1000, (rows,)),
    torch.randint(CLASSES, (rows,)),
)
loader = DataLoader(data, batch_size=options.batch, shuffle=True)
model = DiT().to(options.device)
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0)
for step, batch in enumerate(loader):
    latents, noise, time, label = (part.to(options.device) for part in batch)
    kept = torch.cos(time / 1000 * 1.5708).view(-1, 1, 1, 1)
    noised = kept * latents + (1 - kept**2).sqrt() * noise
    loss = F.mse_loss(model(noised, time.float(), label), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), model.parameters()):
            slow.lerp_(fast, 1e-3)
    print(f"step {step}: loss {loss.item():.4f}")
