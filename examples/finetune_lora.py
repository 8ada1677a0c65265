"""LoRA on a Llama-shaped model with gradient checkpointing and gradient accumulation."""

import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()

    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=arguments.hidden,
        intermediate_size=arguments.hidden * 4,
        num_hidden_layers=arguments.layers,
        num_attention_heads=arguments.hidden // 64,
        num_key_value_heads=8,
        tie_word_embeddings=True,
        use_cache=False,
    )
    torch.set_default_dtype(torch.bfloat16)
    model = LlamaForCausalLM(config)
    model.gradient_checkpointing_enable()
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"]))
    model.print_trainable_parameters()
    model.cuda().train()
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4)

    for step in range(arguments.steps):
        for _ in range(2):
            ids = torch.randint(0, config.vocab_size, (2, arguments.length)).cuda()
            loss = model(input_ids=ids, labels=ids).loss / 2
            loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}  loss {loss.item():.4f}")
    model.save_pretrained("lora-out")


if __name__ == "__main__":
    main()
