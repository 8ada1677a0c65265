"""One training workload as it was measured on a real GPU: prints its peaks as a line of JSON.

The steps follow the public measurement: one warm-up step, statistics reset, one step measured.
Models are built from their configurations, so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import contextlib
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="tokens of a sequence, or pixels of a side")
    arguments = parser.parse_args()

    # What the measuring process had done before: a product and a convolution, each with its gradient.
    a = torch.randn(256, 256, device="cuda")
    (a @ a).sum().item()
    convolution = torch.nn.Conv2d(3, 16, 3, padding=1).cuda()
    convolution(torch.randn(1, 3, 64, 64, device="cuda")).sum().backward()
    del a, convolution
    torch.cuda.empty_cache()

    build = image_classifier if arguments.model.startswith(("resnet", "vgg")) else language_model
    model, loss = build(arguments.model, batch=arguments.batch, size=arguments.size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
            kept, value = loss()
        value.backward()
        optimizer.step()
        del kept

    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    print(
        json.dumps(
            {
                "max_memory_allocated": torch.cuda.max_memory_allocated(),
                "max_memory_reserved": torch.cuda.max_memory_reserved(),
            }
        )
    )


if __name__ == "__main__":
    main()
