"""Text generation: greedy, sampling, beams, a static cache."""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=["greedy", "sample", "beams", "static"], default="greedy")
parser.add_argument("--new-tokens", type=int, default=48)
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=8192,
    hidden_size=256,
    intermediate_size=704,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
model = LlamaForCausalLM(config).to(device, torch.bfloat16).eval()
prompt = torch.randint(3, 8192, (4, 32), device=device)
prompt[0, :5] = 0
mask = (prompt != 0).long()
options = {
    "greedy": {"do_sample": False},
    "sample": {"do_sample": True, "top_k": 50, "top_p": 0.95, "temperature": 0.8},
    "beams": {"num_beams": 4},
    "static": {"cache_implementation": "static", "disable_compile": True},
}[args.how]
out = model.generate(prompt, attention_mask=mask, max_new_tokens=args.new_tokens, **options)
print(out.shape)
