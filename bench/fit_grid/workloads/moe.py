"""A transformer with a mixture of experts: two of eight for each token, a balance loss beside the other."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, HEADS, EXPERTS, LENGTH, VOCAB = (4, 32, 4, 4, 16, 97) if options.small else (4, 384, 6, 8, 384, 8192)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        flat = x.reshape(-1, WIDTH)
        probabilities = self.router(flat).softmax(-1)
        weights, chosen = probabilities.topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == index)
            out = out.index_add(0, rows, expert(flat[rows]) * weights[rows, slots, None])
        return out.view_as(x), probabilities.logsumexp(-1).square().mean()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.moe = Experts()

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(y.reshape(batch, length, WIDTH))
        y, extra = self.moe(self.norm2(x))
        return x + y, extra


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        x, extra = self.tokens(ids), 0.0
        for layer in self.layers:
            x, more = layer(x)
            extra = extra + more
        return self.head(self.norm(x)), extra


torch.manual_seed(0)
data = TensorDataset(torch.randint(VOCAB, (4 * options.batch, LENGTH + 1)))
loader = DataLoader(data, batch_size=options.batch)
model = Model().to(options.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, (ids,) in enumerate(loader):
    ids = ids.to(options.device)
    logits, extra = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) + 0.001 * extra
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
