"""LoRA, rsLoRA and DoRA adapters of PEFT on a frozen decoder."""

import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--dora", action="store_true")
parser.add_argument("--rank", type=int, default=8)
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
base = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=8192,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
    )
).to(torch.bfloat16)
config = LoraConfig(
    r=args.rank,
    lora_alpha=16,
    lora_dropout=0.05,
    use_dora=args.dora,
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
    task_type="CAUSAL_LM",
)
model = get_peft_model(base, config).to(device)
model.print_trainable_parameters()
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
for step in range(4):
    ids = torch.randint(0, 8192, (4, 128), device=device)
    loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
model.save_pretrained("adapter")
merged = model.merge_and_unload()
with torch.no_grad():
    print(merged(ids).logits.shape)
