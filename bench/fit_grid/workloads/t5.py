"""A T5-like encoder and decoder: relative positions, cross attention, labels of another length than the input."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
if options.small:
    LAYERS, WIDTH, HEADS, INNER, SOURCE, TARGET, VOCAB = 4, 32, 4, 64, 20, 12, 120
else:
    LAYERS, WIDTH, HEADS, INNER, SOURCE, TARGET, VOCAB = 4, 384, 6, 1024, 512, 128, 32128


class Attention(nn.Module):
    def __init__(self, relative=False, causal=False):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.bias = nn.Embedding(64, HEADS) if relative else None
        self.causal = causal

    def forward(self, x, memory):
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, -1, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in (self.q(x), self.k(memory), self.v(memory))
        )
        scores = q @ k.transpose(-1, -2)
        distance = torch.arange(memory.shape[1], device=x.device) - torch.arange(length, device=x.device)[:, None]
        if self.bias is not None:
            scores = scores + self.bias(distance.clamp(-32, 31) + 32).permute(2, 0, 1)
        if self.causal:
            scores = scores.masked_fill(distance > 0, float("-inf"))
        y = scores.softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(batch, length, WIDTH))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


class EncoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed = Attention(relative=True), FeedForward()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y)
        return x + self.feed(self.norm2(x))


class DecoderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.cross, self.feed = Attention(relative=True, causal=True), Attention(), FeedForward()
        self.norm1, self.norm2, self.norm3 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, x, memory):
        y = self.norm1(x)
        x = x + self.attention(y, y)
        x = x + self.cross(self.norm2(x), memory)
        return x + self.feed(self.norm3(x))


class T5(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(VOCAB, WIDTH)
        self.encoder = nn.ModuleList(EncoderBlock() for _ in range(LAYERS))
        self.decoder = nn.ModuleList(DecoderBlock() for _ in range(LAYERS))
        self.encoder_norm, self.decoder_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, source, decoder_input):
        x = self.shared(source)
        for block in self.encoder:
            x = block(x)
        memory, y = self.encoder_norm(x), self.shared(decoder_input)
        for block in self.decoder:
            y = block(y, memory)
        return self.lm_head(self.decoder_norm(y))


class Pairs(Dataset):
    def __len__(self):
        return 4 * options.batch

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        source = torch.randint(VOCAB, (SOURCE,), generator=generator)
        return source, torch.randint(VOCAB, (TARGET + 1,), generator=generator)


torch.manual_seed(0)
loader = DataLoader(Pairs(), batch_size=options.batch)
model = T5().to(options.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
criterion = nn.CrossEntropyLoss()
for step, (source, target) in enumerate(loader):
    source, target = source.to(options.device), target.to(options.device)
    loss = criterion(model(source, target[:, :-1]).transpose(1, 2), target[:, 1:])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.4f}")
