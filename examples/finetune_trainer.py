"""A BERT classifier fine-tuned with the Hugging Face Trainer, with evaluation and the best checkpoint kept."""

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    """Random token ids of one length."""

    def __init__(self, count: int, length: int) -> None:
        self.ids = torch.randint(1000, 20000, (count, length))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict:
        return {
            "input_ids": self.ids[index],
            "attention_mask": torch.ones_like(self.ids[index]),
            "labels": torch.tensor(index % 2),
        }


def accuracy(prediction) -> dict:
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def main() -> None:
    model = BertForSequenceClassification(BertConfig(num_labels=2))
    arguments = TrainingArguments(
        output_dir="bert-out",
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        num_train_epochs=2,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        logging_steps=2,
        bf16=True,
        report_to=[],
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=Sentences(96, 256),
        eval_dataset=Sentences(64, 256),
        compute_metrics=accuracy,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
