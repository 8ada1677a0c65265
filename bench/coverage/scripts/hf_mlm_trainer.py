"""Masked language modeling of RoBERTa with the Trainer in float16, masks made on the host."""

import torch
from transformers import RobertaConfig, RobertaForMaskedLM, Trainer, TrainingArguments


class Masked(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        ids = torch.randint(5, 8000, (96,), generator=generator)
        chosen = torch.rand(96, generator=generator) < 0.15
        labels = torch.where(chosen, ids, -100)
        return {"input_ids": torch.where(chosen, 4, ids), "attention_mask": torch.ones(96).long(), "labels": labels}


fp16 = torch.cuda.is_available()
model = RobertaForMaskedLM(
    RobertaConfig(vocab_size=8192, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
)
arguments = TrainingArguments(
    "mlm", per_device_train_batch_size=8, num_train_epochs=1, fp16=fp16, save_strategy="no", report_to=[]
)
Trainer(model=model, args=arguments, train_dataset=Masked()).train()
