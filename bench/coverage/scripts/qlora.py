"""QLoRA: linear layers in 4 bits by bitsandbytes, LoRA on top, a paged 8-bit optimizer."""

import bitsandbytes as bnb
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

device = "cuda"
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=8192,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
    )
).to(torch.bfloat16)
for module in list(model.modules()):
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear) and name != "lm_head":
            quantized = bnb.nn.Linear4bit(
                child.in_features,
                child.out_features,
                bias=False,
                compute_dtype=torch.bfloat16,
                quant_type="nf4",
                compress_statistics=True,
            )
            quantized.load_state_dict(child.state_dict())
            setattr(module, name, quantized)
model = model.to(device)
model.is_loaded_in_4bit = True
model = prepare_model_for_kbit_training(model)
model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
optimizer = bnb.optim.PagedAdamW8bit((p for p in model.parameters() if p.requires_grad), lr=2e-4)
for step in range(4):
    ids = torch.randint(0, 8192, (2, 256), device=device)
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
