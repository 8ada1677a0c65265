"""A mixture of experts written by hand: top-2 routing, index_add, a balance loss."""

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


class Experts(nn.Module):
    def __init__(self, width, count, chosen):
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count)
        )

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        probabilities = self.router(flat).softmax(-1)
        weights, picks = probabilities.topk(self.chosen, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows, slots = torch.where(picks == i)
            if len(rows) == 0:
                continue
            out.index_add_(0, rows, expert(flat[rows]) * weights[rows, slots, None])
        used = F.one_hot(picks, len(self.experts)).float().mean((0, 1))
        self.balance = (used * probabilities.mean(0)).sum() * len(self.experts)
        return out.view_as(x)


torch.manual_seed(0)
model = nn.ModuleDict({"embed": nn.Embedding(1000, 128), "moe": Experts(128, 8, 2), "head": nn.Linear(128, 1000)})
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    ids = torch.randint(0, 1000, (8, 128), device=device)
    logits = model["head"](model["moe"](model["embed"](ids)))
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 1000), ids[:, 1:].reshape(-1)) + 0.01 * model["moe"].balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), sum(p.grad is not None for p in model.parameters()))
