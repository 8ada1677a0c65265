"""A BERT classifier trained by Hugging Face's Trainer."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--small", action="store_true")
parser.add_argument("--auto-find-batch-size", action="store_true")
parser.add_argument("--gradient-checkpointing", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, HEADS, LENGTH, VOCAB = (6, 32, 4, 16, 101) if options.small else (6, 384, 6, 384, 30522)


class Reviews(Dataset):
    def __len__(self):
        return 4 * options.batch

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {"input_ids": torch.randint(VOCAB, (LENGTH,), generator=generator), "labels": index % 2}


torch.manual_seed(0)
config = BertConfig(
    vocab_size=VOCAB,
    hidden_size=WIDTH,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    intermediate_size=4 * WIDTH,
    max_position_embeddings=LENGTH,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=options.batch,
        auto_find_batch_size=options.auto_find_batch_size,
        gradient_checkpointing=options.gradient_checkpointing,
        num_train_epochs=1,
        learning_rate=5e-5,
        warmup_steps=1,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=options.device == "cpu",
        seed=0,
    )
    trainer = Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=Reviews())
    print(trainer.train().training_loss, trainer._train_batch_size)
