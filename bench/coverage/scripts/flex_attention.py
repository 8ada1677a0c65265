"""flex_attention with a sliding window and documents, eager or compiled."""

import sys

import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
attend = torch.compile(flex_attention) if "compiled" in sys.argv else flex_attention
length, window = 256, 64
documents = torch.arange(length, device=device) // 100


def mask(b, h, q, k):
    return (q >= k) & (q - k < window) & (documents[q] == documents[k])


def soft_cap(score, b, h, q, k):
    return 20 * torch.tanh(score / 20)


blocks = create_block_mask(mask, None, None, length, length, device=device)
embed, qkv, head = nn.Embedding(1000, 128), nn.Linear(128, 384), nn.Linear(128, 1000)
model = nn.ModuleList([embed, qkv, head]).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    ids = torch.randint(0, 1000, (2, length), device=device)
    q, k, v = qkv(embed(ids)).view(2, length, 3, 4, 32).permute(2, 0, 3, 1, 4)
    out = attend(q, k, v, score_mod=soft_cap, block_mask=blocks).transpose(1, 2).reshape(2, length, 128)
    loss = nn.functional.cross_entropy(head(out).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), blocks.sparsity())
