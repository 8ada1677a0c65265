"""A small Mixtral trained with its experts run one by one or as grouped products."""

import sys

import torch
from transformers import MixtralConfig, MixtralForCausalLM

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = MixtralConfig(
    vocab_size=4096,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    num_local_experts=8,
    num_experts_per_tok=2,
    output_router_logits=True,
    experts_implementation=sys.argv[1] if len(sys.argv) > 1 else "eager",
)
model = MixtralForCausalLM(config).to(device, torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    ids = torch.randint(0, 4096, (4, 128), device=device)
    out = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, out.loss.item(), out.aux_loss.item())
