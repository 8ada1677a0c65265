"""Fine-tuning of a causal language model as it was measured on a real GPU: prints its peaks as a line of JSON.

One warm-up step, then the highest peak of three steps, each after the cache was emptied and the statistics reset.
The output is released before the optimizer's step and gradients stay allocated, as in the measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json

import shapes
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="tokens of a sequence")
    parser.add_argument("--autocast", action="store_true", help="fp32 weights under autocast; else bf16 weights")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    parser.add_argument("--optimizer", choices=("adamw", "sgd"), default="adamw")
    parser.add_argument("--lora", type=int, metavar="RANK")
    arguments = parser.parse_args()

    import transformers

    model = transformers.AutoModelForCausalLM.from_config(
        shapes.config(arguments.model),
        torch_dtype=torch.float32 if arguments.autocast else torch.bfloat16,
        attn_implementation=arguments.attention,
    ).cuda()
    if arguments.lora:
        import peft

        projections = ["q_proj", "k_proj", "v_proj", "o_proj"]
        adapter = peft.LoraConfig(
            r=arguments.lora,
            lora_alpha=arguments.lora,
            lora_dropout=0.0,
            target_modules=projections,
            task_type="CAUSAL_LM",
        )
        model = peft.get_peft_model(model, adapter)
    ids = torch.randint(0, model.config.vocab_size, (arguments.batch, arguments.size), device="cuda")
    model.train()
    model.config.use_cache = False
    if arguments.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if arguments.optimizer == "adamw":
        optimizer = torch.optim.AdamW(trained, lr=1e-5, foreach=True)
    else:
        optimizer = torch.optim.SGD(trained, lr=1e-5, momentum=0.9, foreach=True)

    def kernels():
        if arguments.attention == "sdpa":
            return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION])
        return contextlib.nullcontext()

    def mixed():
        return torch.autocast("cuda", dtype=torch.bfloat16) if arguments.autocast else contextlib.nullcontext()

    def step() -> None:
        with kernels():
            with mixed():
                output = model(input_ids=ids, labels=ids, use_cache=False)
                loss = output.loss
            loss.backward()
        del output, loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    step()
    peaks = {"max_memory_allocated": 0, "max_memory_reserved": 0}
    for _ in range(3):
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        peaks = {name: max(peak, getattr(torch.cuda, name)()) for name, peak in peaks.items()}
    print(json.dumps(peaks))


if __name__ == "__main__":
    main()
