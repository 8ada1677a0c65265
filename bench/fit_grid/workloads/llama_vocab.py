"""A narrow Llama with a vocabulary of 128 thousand: the logits are most of the memory."""

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
if options.small:
    LAYERS, WIDTH, HEADS, GROUPS, INNER, LENGTH, VOCAB = 4, 32, 4, 2, 48, 16, 1000
else:
    LAYERS, WIDTH, HEADS, GROUPS, INNER, LENGTH, VOCAB = 4, 256, 8, 2, 704, 256, 128256


def rotate(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = WIDTH // HEADS
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj = nn.Linear(WIDTH, GROUPS * self.size, bias=False)
        self.v_proj = nn.Linear(WIDTH, GROUPS * self.size, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, cosine, sine):
        batch, length, _ = x.shape
        q, k, v = (
            project(x).view(batch, length, -1, self.size).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        k, v = (part.repeat_interleave(HEADS // GROUPS, dim=1) for part in (rotate(k, cosine, sine), v))
        y = F.scaled_dot_product_attention(rotate(q, cosine, sine), k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, WIDTH))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, INNER, bias=False)
        self.up_proj = nn.Linear(WIDTH, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_norm, self.self_attn = nn.RMSNorm(WIDTH), Attention()
        self.post_norm, self.mlp = nn.RMSNorm(WIDTH), MLP()

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_norm(x), cosine, sine)
        return x + self.mlp(self.post_norm(x))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)
        size = WIDTH // HEADS
        angles = torch.arange(LENGTH)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("cosine", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sine", torch.cat((angles, angles), -1).sin(), persistent=False)

    def forward(self, ids):
        x, length = self.embed_tokens(ids), ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.cosine[:length], self.sine[:length])
        return self.lm_head(self.norm(x))


torch.manual_seed(0)
data = TensorDataset(torch.randint(VOCAB, (4 * options.batch, LENGTH)))
loader = DataLoader(data, batch_size=options.batch, shuffle=True)
model = Llama().to(options.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
for step, (ids,) in enumerate(loader):
    ids = ids.to(options.device)
    logits = model(ids)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
