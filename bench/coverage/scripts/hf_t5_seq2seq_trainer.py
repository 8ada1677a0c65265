"""T5 with Seq2SeqTrainer, evaluated by generating."""

import torch
from transformers import (
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    T5Config,
    T5ForConditionalGeneration,
    default_data_collator,
)

config = T5Config(vocab_size=4096, d_model=128, d_ff=512, d_kv=32, num_layers=3, num_heads=4, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config)


class Pairs(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        source = torch.randint(2, 4096, (64,), generator=generator)
        return {"input_ids": source, "attention_mask": torch.ones_like(source), "labels": source[:32].clone()}


trainer = Seq2SeqTrainer(
    model=model,
    args=Seq2SeqTrainingArguments(
        output_dir="t5",
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        max_steps=4,
        eval_strategy="steps",
        eval_steps=4,
        predict_with_generate=True,
        generation_max_length=24,
        save_strategy="no",
        report_to=[],
    ),
    train_dataset=Pairs(32),
    eval_dataset=Pairs(8),
    data_collator=default_data_collator,
)
trainer.train()
print(trainer.predict(Pairs(8)).predictions.shape)
