"""GPT-2 124M written from scratch, at steps of its optimization as they were measured on a real GPU.

Prints what is reserved at the end of an epoch as a line of JSON. The epoch is short, which changes nothing: every
batch has one shape, and the evaluations between and the text sampled at the end are there.
"""

from __future__ import annotations

import argparse
import json

import torch
from torch import nn

WIDTH, LAYERS, HEADS, CONTEXT, DROPOUT = 768, 12, 12, 1024, 0.1


class PlainNorm(nn.Module):
    """Layer normalization in single operations."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.shift


class PlainGelu(nn.Module):
    """The tanh form of GELU in single operations."""

    def forward(self, x):
        cubic = x + 0.044715 * torch.pow(x, 3)
        return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / torch.pi)) * cubic))


class PlainAttention(nn.Module):
    """Causal attention that materializes its scores."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        batch, tokens, _ = x.shape
        keys = self.key(x)
        queries = self.query(x)
        values = self.value(x)
        keys = keys.view(batch, tokens, HEADS, -1)
        values = values.view(batch, tokens, HEADS, -1)
        queries = queries.view(batch, tokens, HEADS, -1)
        keys = keys.transpose(1, 2)
        queries = queries.transpose(1, 2)
        values = values.transpose(1, 2)
        scores = queries @ keys.transpose(2, 3)
        mask = torch.triu(torch.ones(tokens, tokens, dtype=torch.bool, device=x.device), diagonal=1)
        scores.masked_fill_(mask, -torch.inf)
        weights = torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1)
        weights = self.dropout(weights)
        context = (weights @ values).transpose(1, 2)
        context = context.reshape(batch, tokens, WIDTH)
        return self.out(context)


class FusedAttention(nn.Module):
    """`scaled_dot_product_attention` behind one projection."""

    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, width = x.shape
        joint = self.projection(x)
        joint = joint.view(batch, tokens, 3, HEADS, width // HEADS)
        joint = joint.permute(2, 0, 3, 1, 4)
        queries, keys, values = joint
        context = nn.functional.scaled_dot_product_attention(
            queries, keys, values, dropout_p=DROPOUT if self.training else 0.0, is_causal=True
        )
        context = context.transpose(1, 2).contiguous().view(batch, tokens, width)
        return self.out(context)


class Block(nn.Module):
    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        norm = nn.LayerNorm if fused else PlainNorm
        self.attention = FusedAttention() if fused else PlainAttention()
        activation = nn.GELU(approximate="tanh") if fused else PlainGelu()
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), activation, nn.Linear(4 * WIDTH, WIDTH))
        self.first, self.second = norm(WIDTH), norm(WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        kept = x
        x = self.first(x)
        x = self.attention(x)
        x = self.dropout(x)
        x = x + kept
        kept = x
        x = self.second(x)
        x = self.feed(x)
        x = self.dropout(x)
        return x + kept


class Model(nn.Module):
    def __init__(self, vocabulary: int, *, fused: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*[Block(fused=fused) for _ in range(LAYERS)])
        self.norm = (nn.LayerNorm if fused else PlainNorm)(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, ids):
        tokens = self.tokens(ids)
        positions = self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = tokens + positions
        x = self.dropout(x)
        x = self.blocks(x)
        x = self.norm(x)
        return self.head(x)


def loss_of(model, batch):
    ids, targets = (part.to("cuda") for part in batch)
    logits = model(ids)
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--fused-optimizer", action="store_true")
    parser.add_argument("--fused-layers", action="store_true", help="PyTorch's norms, activation and attention")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--vocabulary", type=int, default=50257)
    arguments = parser.parse_args()

    torch.manual_seed(123)
    model = Model(arguments.vocabulary, fused=arguments.fused_layers)
    if arguments.compile:
        model = torch.compile(model)
    model.to("cuda")
    if arguments.bfloat16:
        model.to(torch.bfloat16)
        torch.set_float32_matmul_precision("high")
    more = {"fused": True} if arguments.fused_optimizer else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1, **more)

    ids = torch.randint(50257, (6 * arguments.batch + 3, CONTEXT))
    data = torch.utils.data.TensorDataset(ids, ids)
    pinned = arguments.fused_optimizer
    training = torch.utils.data.DataLoader(data, arguments.batch, shuffle=True, drop_last=True, pin_memory=pinned)
    validation = torch.utils.data.DataLoader(data, arguments.batch, pin_memory=pinned)

    model.train()
    for number, batch in enumerate(training):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        if number % 4 == 0:
            model.eval()
            with torch.no_grad():
                for loader in (training, validation):
                    sum(loss_of(model, one).item() for one in loader)
            model.train()
    model.eval()
    text = torch.tensor([[15496, 11, 314, 716]]).to("cuda")
    for _ in range(50):
        with torch.no_grad():
            logits = model(text[:, -CONTEXT:])
        logits = logits[:, -1, :]
        text = torch.cat((text, torch.argmax(logits, dim=-1, keepdim=True)), dim=1)
    print(
        json.dumps(
            {
                "max_memory_allocated": torch.cuda.max_memory_allocated(),
                "max_memory_reserved": torch.cuda.memory_reserved(),
            }
        )
    )


if __name__ == "__main__":
    main()
