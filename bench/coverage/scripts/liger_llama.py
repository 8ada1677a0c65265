"""Llama with Liger's Triton kernels: RMSNorm, RoPE, SwiGLU and the fused linear cross entropy."""

import torch
from liger_kernel.transformers import apply_liger_kernel_to_llama
from transformers import LlamaConfig, LlamaForCausalLM

apply_liger_kernel_to_llama()
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=8192,
    hidden_size=256,
    intermediate_size=704,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for step in range(4):
    ids = torch.randint(0, 8192, (4, 128), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
