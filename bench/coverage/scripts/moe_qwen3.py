"""Qwen3-MoE fine-tuned with a plain loop and gradient checkpointing."""

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = Qwen3MoeConfig(
    vocab_size=4096,
    hidden_size=256,
    intermediate_size=512,
    moe_intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    head_dim=32,
    num_experts=16,
    num_experts_per_tok=4,
)
model = Qwen3MoeForCausalLM(config).to(device)
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    ids = torch.randint(0, 4096, (4, 128), device=device)
    with torch.autocast(device, torch.bfloat16):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
