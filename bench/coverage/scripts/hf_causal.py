"""A decoder from the Hugging Face library trained in a plain loop, bfloat16 autocast, AdamW."""

import argparse

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
)

small = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
configs = {
    "llama": lambda: LlamaConfig(**small),
    "qwen2": lambda: Qwen2Config(**small),
    "qwen3": lambda: Qwen3Config(**small, head_dim=32),
    "gemma2": lambda: Gemma2Config(**small, head_dim=32),
    "gemma3": lambda: Gemma3TextConfig(**small, head_dim=32),
    "mistral": lambda: MistralConfig(**small, sliding_window=64),
    "phi3": lambda: Phi3Config(**small),
    "gpt2": lambda: GPT2Config(vocab_size=8192, n_embd=256, n_layer=4, n_head=8),
    "neox": lambda: GPTNeoXConfig(
        vocab_size=8192, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8
    ),
    "mamba": lambda: MambaConfig(vocab_size=8192, hidden_size=256, num_hidden_layers=2, state_size=16),
}

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=configs, default="llama")
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--length", type=int, default=128)
parser.add_argument("--no-mask", action="store_true")
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(configs[args.model]()).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

model.train()
for step in range(4):
    ids = torch.randint(3, 8192, (args.batch_size, args.length), device=device)
    mask = None if args.no_mask else torch.ones_like(ids)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
