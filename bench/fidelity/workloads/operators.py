"""Single operators as they were measured on a real GPU: prints the peak as a line of JSON.

Ten rounds of forward and backward, the statistics reset before each and the gradients kept, as in the measurement.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import torch


def cross_entropy(*, rows: int, vocabulary: int, dtype: torch.dtype) -> Callable[[], None]:
    """`nn.CrossEntropyLoss` on logits that are a leaf."""
    logits = torch.randn(rows, vocabulary, requires_grad=True, device="cuda", dtype=dtype)
    target = torch.randint(vocabulary, (rows, 1), device="cuda").squeeze(1)
    loss = torch.nn.CrossEntropyLoss()
    return lambda: loss(logits, target).backward()


def language_head(*, rows: int, hidden: int, vocabulary: int, dtype: torch.dtype) -> Callable[[], None]:
    """A linear head and cross-entropy, beside a second head of the same size that only holds its weight."""
    heads = [torch.nn.Linear(hidden, vocabulary, bias=False, dtype=dtype, device="cuda") for _ in range(2)]
    loss = torch.nn.CrossEntropyLoss(reduction="mean")
    states = torch.randn(rows, hidden, requires_grad=True, dtype=dtype, device="cuda")
    target = torch.randint(vocabulary, (rows, 1), dtype=torch.long, device="cuda").squeeze(1)
    return lambda: loss(heads[0](states), target).backward()


def layer_norm(*, rows: int, hidden: int, dtype: torch.dtype) -> Callable[[], None]:
    """`nn.LayerNorm` whose graph is kept."""
    norm = torch.nn.LayerNorm(hidden, eps=1e-6, device="cuda", dtype=dtype)
    states = torch.randn(rows, hidden, dtype=dtype, device="cuda")
    gradient = torch.randn_like(states)
    states.requires_grad_()

    def step() -> None:
        result = norm(states)
        result.backward(gradient, retain_graph=True)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operator", choices=("cross_entropy", "language_head", "layer_norm"))
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--hidden", type=int)
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), required=True)
    arguments = vars(parser.parse_args())
    arguments["dtype"] = getattr(torch, arguments["dtype"])
    build = globals()[arguments.pop("operator")]
    step = build(**{name: value for name, value in arguments.items() if value is not None})

    peak = 0
    for _ in range(10):
        torch.cuda.memory.reset_peak_memory_stats()
        step()
        peak = max(peak, torch.cuda.max_memory_allocated())
    print(json.dumps({"max_memory_allocated": peak, "max_memory_reserved": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main()
