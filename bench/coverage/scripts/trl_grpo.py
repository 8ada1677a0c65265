"""GRPO with TRL: sampled completions, a reward computed on the host."""

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

words = {f"w{i}": i + 3 for i in range(1000)} | {"<pad>": 0, "<s>": 1, "</s>": 2}
raw = Tokenizer(models.WordLevel(words, unk_token="<s>"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>", padding_side="left"
)


def reward(completions, **kwargs):
    return [float(len(set(text.split()))) for text in completions]


config = LlamaConfig(
    vocab_size=1024,
    hidden_size=128,
    intermediate_size=352,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
trainer = GRPOTrainer(
    model=LlamaForCausalLM(config),
    processing_class=tokenizer,
    reward_funcs=reward,
    train_dataset=Dataset.from_dict({"prompt": [f"w{i} w{i + 1} w{i + 2}" for i in range(32)]}),
    args=GRPOConfig(
        output_dir="grpo",
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=24,
        max_steps=3,
        logging_steps=1,
        save_strategy="no",
        bf16=torch.cuda.is_available(),
        report_to=[],
    ),
)
trainer.train()
