"""Low-rank adapters on a frozen transformer: few gradients and states, all of the activations."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, HEADS, LENGTH, VOCAB = (6, 32, 4, 16, 97) if options.small else (6, 1024, 16, 512, 16384)


class Adapted(nn.Module):
    def __init__(self, inner, outer, rank=8):
        super().__init__()
        self.base = nn.Linear(inner, outer, bias=False)
        self.base.weight.requires_grad_(False)
        self.down = nn.Linear(inner, rank, bias=False)
        self.up = nn.Linear(rank, outer, bias=False)
        nn.init.normal_(self.up.weight, std=0.02)

    def forward(self, x):
        return self.base(x) + 2.0 * self.up(self.down(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v, self.o = (Adapted(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = Adapted(WIDTH, 4 * WIDTH), Adapted(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        y = self.norm1(x)
        q, k, v = (layer(y).view(batch, length, HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.h:
            x = block(x)
        return self.head(self.norm(x))


torch.manual_seed(0)
model = Model()
for name, parameter in model.named_parameters():
    parameter.requires_grad_(".down.weight" in name or ".up.weight" in name)
for module in model.modules():
    if isinstance(module, Adapted):
        module.base.requires_grad_(False)
model.to(options.device)
data = TensorDataset(torch.randint(VOCAB, (4 * options.batch, LENGTH + 1)))
loader = DataLoader(data, batch_size=options.batch, shuffle=True)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for step, (ids,) in enumerate(loader):
    ids = ids.to(options.device)
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")
