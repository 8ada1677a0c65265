"""Causal language models with the Hugging Face Trainer: accumulation, checkpointing, evaluation."""

import sys

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    Qwen2Config,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

name = sys.argv[1] if len(sys.argv) > 1 else "llama"
sizes = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
config = {
    "llama": lambda: LlamaConfig(**sizes),
    "qwen2": lambda: Qwen2Config(**sizes),
    "gemma2": lambda: Gemma2Config(**sizes, head_dim=32),
    "gpt2": lambda: GPT2Config(vocab_size=8192, n_embd=256, n_layer=4, n_head=8),
}[name]()


class Blocks(torch.utils.data.Dataset):
    def __init__(self, count):
        self.ids = torch.randint(3, 8000, (count, 128), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones_like(self.ids[i]), "labels": self.ids[i]}


model = AutoModelForCausalLM.from_config(config)
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        gradient_checkpointing=True,
        max_steps=4,
        learning_rate=2e-4,
        lr_scheduler_type="cosine",
        eval_strategy="steps",
        eval_steps=2,
        save_steps=2,
        logging_steps=1,
        bf16=True,
        report_to=[],
    ),
    train_dataset=Blocks(32),
    eval_dataset=Blocks(8),
    data_collator=default_data_collator,
)
trainer.train()
trainer.save_model("out/final")
