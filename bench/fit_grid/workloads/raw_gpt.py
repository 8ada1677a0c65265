"""A GPT whose loop draws its batches from one long tensor, without a loader; the model returns its loss."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, HEADS, LENGTH, VOCAB = (6, 32, 4, 16, 65) if options.small else (6, 384, 6, 512, 8192)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.mlp_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(VOCAB, WIDTH),
                "wpe": nn.Embedding(LENGTH, WIDTH),
                "h": nn.ModuleList(Block() for _ in range(LAYERS)),
                "ln_f": nn.LayerNorm(WIDTH),
            }
        )
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids, targets):
        x = self.transformer["wte"](ids) + self.transformer["wpe"](torch.arange(ids.shape[1], device=ids.device))
        for block in self.transformer["h"]:
            x = block(x)
        logits = self.lm_head(self.transformer["ln_f"](x))
        return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1), ignore_index=-1)


torch.manual_seed(1337)
text = torch.randint(VOCAB, (20 * LENGTH,))


def get_batch():
    starts = torch.randint(len(text) - LENGTH - 1, (options.batch,)).tolist()
    x = torch.stack([text[i : i + LENGTH] for i in starts])
    y = torch.stack([text[i + 1 : i + 1 + LENGTH] for i in starts])
    return x.to(options.device), y.to(options.device)


model = GPT().to(options.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
ids, targets = get_batch()
for iteration in range(5):
    logits, loss = model(ids, targets)
    ids, targets = get_batch()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"iteration {iteration}: loss {loss.item():.4f}")
