"""Encoders from the Hugging Face library, classification of padded sentences, plain loop."""

import argparse

import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    ModernBertConfig,
    RobertaConfig,
)

size = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "num_labels": 3,
    "pad_token_id": 0,
}
configs = {
    "bert": lambda: BertConfig(**size),
    "roberta": lambda: RobertaConfig(**{**size, "pad_token_id": 1}),
    "deberta": lambda: DebertaV2Config(
        **size, relative_attention=True, position_buckets=32, pos_att_type=["p2c", "c2p"], type_vocab_size=0
    ),
    "modernbert": lambda: ModernBertConfig(**{**size, "intermediate_size": 384}, local_attention=32),
}
parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=configs, default="bert")
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
model = AutoModelForSequenceClassification.from_config(configs[args.model]()).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)

for step in range(4):
    ids = torch.randint(5, 8192, (8, 96))
    lengths = torch.randint(40, 97, (8,))
    mask = (torch.arange(96)[None] < lengths[:, None]).long()
    ids = torch.where(mask.bool(), ids, model.config.pad_token_id)
    labels = torch.randint(0, 3, (8,))
    out = model(input_ids=ids.to(device), attention_mask=mask.to(device), labels=labels.to(device))
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    accuracy = (out.logits.argmax(-1).cpu() == labels).float().mean().item()
    print(f"step {step} loss {out.loss.item():.4f} accuracy {accuracy:.2f}")
