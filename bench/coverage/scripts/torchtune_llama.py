"""torchtune's building blocks: its Llama with LoRA, its chunked loss, activation checkpointing."""

import torch
from torchtune.models.llama3 import lora_llama3
from torchtune.modules.loss import CEWithChunkedOutputLoss
from torchtune.modules.peft import get_adapter_params, set_trainable_params
from torchtune.training import set_activation_checkpointing

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = lora_llama3(
    lora_attn_modules=["q_proj", "v_proj"],
    apply_lora_to_mlp=True,
    vocab_size=8192,
    num_layers=4,
    num_heads=8,
    num_kv_heads=4,
    embed_dim=256,
    max_seq_len=256,
    intermediate_dim=704,
    lora_rank=8,
    lora_alpha=16,
).to(device, torch.bfloat16)
set_trainable_params(model, get_adapter_params(model))
set_activation_checkpointing(model, auto_wrap_policy={type(model.layers[0])})
loss_of = CEWithChunkedOutputLoss()
model.set_num_output_chunks(loss_of.num_output_chunks)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4)
for step in range(4):
    tokens = torch.randint(0, 8192, (2, 128), device=device)
    labels = tokens.roll(-1, 1)
    labels[:, -1] = -100
    loss = loss_of(model(tokens), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(step, loss.item())
