"""Causal language models with accelerate: mixed precision, accumulation, gathering of losses, a saved state."""

import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen3Config, get_scheduler

sizes = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
configs = {"llama": LlamaConfig, "mistral": MistralConfig, "qwen3": Qwen3Config}
config = configs[sys.argv[1] if len(sys.argv) > 1 else "llama"](**sizes)

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)
train = DataLoader(torch.randint(0, 8192, (24, 128)), batch_size=4, shuffle=True)
test = DataLoader(torch.randint(0, 8192, (8, 128)), batch_size=4)
scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=6)
model, optimizer, train, test, scheduler = accelerator.prepare(model, optimizer, train, test, scheduler)

for epoch in range(2):
    model.train()
    for batch in train:
        with accelerator.accumulate(model):
            loss = model(input_ids=batch, labels=batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    losses = []
    for batch in test:
        with torch.no_grad():
            losses.append(accelerator.gather_for_metrics(model(input_ids=batch, labels=batch).loss.repeat(4)))
    accelerator.print(epoch, torch.cat(losses).mean().item())
accelerator.save_state("state")
