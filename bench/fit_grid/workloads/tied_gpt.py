"""A GPT whose head is its embedding, and whose learning rate is set by hand from the number of the step."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, HEADS, LENGTH, VOCAB = (6, 32, 4, 16, 97) if options.small else (6, 384, 6, 384, 50304)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(y.reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, ids, targets=None):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1))


class Lines(Dataset):
    def __len__(self):
        return 4 * options.batch

    def __getitem__(self, index):
        line = torch.randint(VOCAB, (LENGTH + 1,), generator=torch.Generator().manual_seed(index))
        return line[:-1], line[1:]


def rate(step):
    return 3e-4 * (step + 1) / 2 if step < 2 else 1.5e-4 * (1 + math.cos(math.pi * step / 8))


torch.manual_seed(0)
loader = DataLoader(Lines(), batch_size=options.batch, shuffle=True)
model = GPT().to(options.device)
decayed = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}])
step = 0
for _ in range(2):
    for ids, targets in loader:
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        loss = model(ids.to(options.device), targets.to(options.device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
print(f"loss {loss.item():.4f} after {step} steps")
