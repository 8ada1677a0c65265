"""Two towers and a contrastive loss: every pair of the batch is compared, so that a smaller batch is another loss."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
if options.small:
    options.batch = min(options.batch, 16)
    LAYERS, WIDTH, HEADS, SIDE, PATCH, LENGTH, VOCAB = 5, 32, 4, 32, 8, 12, 97
else:
    LAYERS, WIDTH, HEADS, SIDE, PATCH, LENGTH, VOCAB = 5, 256, 4, 192, 16, 64, 16384


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.out(y)
        return x + self.mlp(self.norm2(x))


class Tower(nn.Module):
    def __init__(self, embed, length):
        super().__init__()
        self.embed = embed
        self.positions = nn.Parameter(0.02 * torch.randn(1, length, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.project = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 128, bias=False)

    def forward(self, x):
        x = self.embed(x)
        if x.dim() == 4:
            x = x.flatten(2).transpose(1, 2)
        x = self.blocks(x + self.positions)
        return F.normalize(self.project(self.norm(x.mean(1))), dim=-1)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = Tower(nn.Conv2d(3, WIDTH, PATCH, stride=PATCH), (SIDE // PATCH) ** 2)
        self.text = Tower(nn.Embedding(VOCAB, WIDTH), LENGTH)
        self.scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, images, ids):
        return self.scale.exp() * self.image(images) @ self.text(ids).T


torch.manual_seed(0)
rows = 4 * options.batch
data = TensorDataset(torch.randn(rows, 3, SIDE, SIDE), torch.randint(VOCAB, (rows, LENGTH)))
loader = DataLoader(data, batch_size=options.batch, shuffle=True, drop_last=True)
model = Towers().to(options.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
for step, (images, ids) in enumerate(loader):
    logits = model(images.to(options.device), ids.to(options.device))
    labels = torch.arange(len(logits), device=logits.device)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
