"""Image classification with ViT and the Trainer, workers, label smoothing."""

import numpy as np
import torch
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification


class Images(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return {"pixel_values": torch.randn(3, 64, 64, generator=generator), "labels": i % 10}


def metrics(prediction):
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


config = ViTConfig(
    image_size=64,
    patch_size=8,
    hidden_size=192,
    num_hidden_layers=4,
    num_attention_heads=3,
    intermediate_size=768,
    num_labels=10,
)
trainer = Trainer(
    model=ViTForImageClassification(config),
    args=TrainingArguments(
        output_dir="vit",
        per_device_train_batch_size=16,
        num_train_epochs=1,
        dataloader_num_workers=2,
        label_smoothing_factor=0.1,
        eval_strategy="epoch",
        save_strategy="no",
        optim="adamw_torch_fused" if torch.cuda.is_available() else "adamw_torch",
        report_to=[],
    ),
    train_dataset=Images(64),
    eval_dataset=Images(32),
    compute_metrics=metrics,
)
trainer.train()
print(trainer.evaluate())
