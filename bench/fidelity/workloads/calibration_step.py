"""One training workload as it was measured on a real GPU: prints its peaks as a line of JSON.

The steps follow the public measurement: one warm-up step, statistics reset, one step measured. One process measured
all models in turn after a few small ones, and what a process did before decides which cached blocks it finds, so the
same is done here up to the model that is asked for. Models are built from their configurations, so nothing is
downloaded.
"""

from __future__ import annotations

import argparse
import json

import torch


def language_model(name: str, *, batch: int, size: int):
    """A causal language model with its loss, or an encoder with the mean square of its output."""
    import transformers

    configs = {
        "gpt2": transformers.GPT2Config,
        "bert-base-uncased": transformers.BertConfig,
        "distilbert-base-uncased": transformers.DistilBertConfig,
    }
    config = configs[name]()
    causal = name == "gpt2"
    kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
    model = kind.from_config(config).cuda().train()
    ids = torch.randint(0, config.vocab_size - 1, (batch, size), device="cuda")

    def loss():
        if causal:
            out = model(input_ids=ids, labels=ids)
            return out, out.loss
        out = model(input_ids=ids)
        return out, out.last_hidden_state.float().pow(2).mean()

    return model, loss


def image_classifier(name: str, *, batch: int, size: int):
    """A torchvision classifier with cross-entropy."""
    import torchvision

    model = getattr(torchvision.models, name)().cuda().train()
    images = torch.randn(batch, 3, size, size, device="cuda")
    targets = torch.randint(0, 1000, (batch,), device="cuda")

    def loss():
        out = model(images)
        return None, torch.nn.functional.cross_entropy(out, targets)

    return model, loss


class Block(torch.nn.Module):
    """A layer of the small transformers that were measured first."""

    def __init__(self, *, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        bias = dropout > 0
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (torch.nn.Linear(width, width, bias=bias) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, inner, bias=bias), torch.nn.Linear(inner, width, bias=bias)
        self.dropout = torch.nn.Dropout(dropout) if dropout else torch.nn.Identity()

    def forward(self, x, *, fused: bool):
        batch, tokens, width = x.shape
        size = width // self.heads
        y = self.first(x)
        query, key, value = (
            layer(y).view(batch, tokens, self.heads, size).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        if fused:
            attended = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        else:
            attended = self.dropout(((query @ key.transpose(-2, -1)) / size**0.5).softmax(-1)) @ value
        x = x + self.dropout(self.out(attended.transpose(1, 2).reshape(batch, tokens, width)))
        return x + self.dropout(self.down(torch.nn.functional.gelu(self.up(self.second(x)))))


def small_transformer(*, layers: int, width: int, heads: int, batch: int, size: int, dropout: float, fused: bool):
    """One of the small transformers, with the mean square of its output."""
    blocks = [Block(width=width, heads=heads, inner=4 * width, dropout=dropout) for _ in range(layers)]
    model = torch.nn.ModuleList(blocks).cuda()
    x = torch.randn(batch, size, width, device="cuda")

    def loss():
        y = x
        for block in model:
            y = block(y, fused=fused)
        return None, y.float().pow(2).mean()

    return model, loss


SMALL = [
    {"layers": 4, "width": 512, "heads": 8, "batch": 4, "size": 256, "dropout": 0.0, "fused": False},
    {"layers": 6, "width": 768, "heads": 12, "batch": 8, "size": 512, "dropout": 0.1, "fused": False},
    {"layers": 6, "width": 768, "heads": 12, "batch": 4, "size": 1024, "dropout": 0.0, "fused": True},
    {"layers": 12, "width": 768, "heads": 12, "batch": 2, "size": 512, "dropout": 0.0, "fused": False},
    {"layers": 4, "width": 1024, "heads": 16, "batch": 2, "size": 1024, "dropout": 0.0, "fused": True},
]
ORDER = ["gpt2", "distilbert-base-uncased", "bert-base-uncased", "resnet50"]


def history(name: str, *, batch: int) -> list[tuple[str, int, int]]:
    """What was measured before a model with a batch: its predecessors, each with a small and a large batch."""
    before = []
    for other in ORDER:
        for shape in ((16, 224), (32, 224)) if other == "resnet50" else ((4, 128), (8, 256)):
            if (other, shape[0]) == (name, batch):
                return before
            before.append((other, *shape))
    raise ValueError(f"{name} with a batch of {batch} is not among the measured")


def train(model, loss, *, rate: float) -> dict[str, int]:
    """The peaks of the second of two steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=dtype):
            kept, value = loss()
        value.backward()
        optimizer.step()
        del kept

    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return {name: getattr(torch.cuda, name)() for name in ("max_memory_allocated", "max_memory_reserved")}


def measure(name: str, *, batch: int, size: int) -> dict[str, int]:
    """One model, the cache emptied before and after."""
    torch.cuda.empty_cache()
    build = image_classifier if name.startswith(("resnet", "vgg")) else language_model
    model, loss = build(name, batch=batch, size=size)
    peaks = train(model, loss, rate=1e-4 if build is image_classifier else 1e-5)
    del model, loss
    torch.cuda.empty_cache()
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="tokens of a sequence, or pixels of a side")
    arguments = parser.parse_args()

    torch.cuda.init()
    a = torch.randn(256, 256, device="cuda")
    (a @ a).sum().item()
    convolution = torch.nn.Conv2d(3, 16, 3, padding=1).cuda()
    convolution(torch.randn(1, 3, 64, 64, device="cuda")).sum().backward()
    del a, convolution
    torch.cuda.empty_cache()
    for case in SMALL:
        torch.cuda.empty_cache()
        model, loss = small_transformer(**case)
        train(model, loss, rate=1e-4)
        del model, loss
        torch.cuda.empty_cache()
    for name, batch, size in history(arguments.model, batch=arguments.batch):
        measure(name, batch=batch, size=size)
    print(json.dumps(measure(arguments.model, batch=arguments.batch, size=arguments.size)))


if __name__ == "__main__":
    main()
