"""Supervised fine-tuning with TRL on texts that are already token ids."""

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

words = {f"w{i}": i + 3 for i in range(1000)} | {"<pad>": 0, "<s>": 1, "</s>": 2}
raw = Tokenizer(models.WordLevel(words, unk_token="<s>"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>")

torch.manual_seed(0)
lengths = torch.randint(20, 100, (64,)).tolist()
texts = [" ".join(f"w{(7 * i + j) % 1000}" for j in range(n)) for i, n in enumerate(lengths)]
config = LlamaConfig(
    vocab_size=1024,
    hidden_size=256,
    intermediate_size=704,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
trainer = SFTTrainer(
    model=LlamaForCausalLM(config),
    processing_class=tokenizer,
    train_dataset=Dataset.from_dict({"text": texts}),
    args=SFTConfig(
        output_dir="sft",
        max_length=128,
        per_device_train_batch_size=4,
        max_steps=4,
        logging_steps=1,
        save_strategy="no",
        bf16=torch.cuda.is_available(),
        report_to=[],
    ),
)
trainer.train()
