"""Preference optimization with TRL's DPOTrainer and a LoRA policy."""

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import DPOConfig, DPOTrainer

words = {f"w{i}": i + 3 for i in range(1000)} | {"<pad>": 0, "<s>": 1, "</s>": 2}
raw = Tokenizer(models.WordLevel(words, unk_token="<s>"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>")

torch.manual_seed(0)
rows = {
    "prompt": [" ".join(f"w{(i + j) % 1000}" for j in range(16)) for i in range(32)],
    "chosen": [" ".join(f"w{(3 * i + j) % 1000}" for j in range(24)) for i in range(32)],
    "rejected": [" ".join(f"w{(5 * i + j) % 1000}" for j in range(20)) for i in range(32)],
}
config = Qwen2Config(
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
trainer = DPOTrainer(
    model=Qwen2ForCausalLM(config),
    processing_class=tokenizer,
    train_dataset=Dataset.from_dict(rows),
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    args=DPOConfig(
        output_dir="dpo",
        per_device_train_batch_size=4,
        max_length=64,
        max_steps=4,
        logging_steps=1,
        save_strategy="no",
        bf16=torch.cuda.is_available(),
        report_to=[],
    ),
)
trainer.train()
