"""A BERT on masked words: every batch is padded to its own longest line, and most labels are ignored."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, HEADS, LENGTH, VOCAB = (6, 32, 4, 24, 101) if options.small else (6, 384, 6, 384, 30522)
PAD, MASK, IGNORED = 0, 1, -100


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, HEADS, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return self.output(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm1 = SelfAttention(), nn.LayerNorm(WIDTH)
        self.up, self.down, self.norm2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layer = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.transform = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))
        self.decoder = nn.Linear(WIDTH, VOCAB)

    def forward(self, input_ids, attention_mask):
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.norm(self.words(input_ids) + self.positions(positions))
        for layer in self.layer:
            x = layer(x, attention_mask)
        return self.decoder(self.transform(x))


def collate(lines):
    ids = pad_sequence(lines, batch_first=True, padding_value=PAD)
    hidden = (torch.rand(ids.shape) < 0.15) & (ids != PAD)
    hidden[:, 0] = True
    return {
        "input_ids": ids.masked_fill(hidden, MASK),
        "attention_mask": ids != PAD,
        "labels": ids.masked_fill(~hidden, IGNORED),
    }


torch.manual_seed(0)
lengths = torch.randint(LENGTH // 4, LENGTH + 1, (4 * options.batch,)).tolist()
lines = [torch.randint(2, VOCAB, (length,)) for length in lengths]
loader = DataLoader(lines, batch_size=options.batch, shuffle=True, collate_fn=collate)
device = torch.device(options.device)
model = Bert().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1.0, end_factor=0.1, total_iters=8)
for epoch in range(2):
    model.train()
    for batch in loader:
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        optimizer.zero_grad()
        logits = model(batch["input_ids"], batch["attention_mask"])
        loss = F.cross_entropy(logits.view(-1, VOCAB), batch["labels"].view(-1), ignore_index=IGNORED)
        loss.backward()
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
