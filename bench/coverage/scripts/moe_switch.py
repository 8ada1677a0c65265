"""A Switch transformer trained with its own routing, capacity and dropped tokens."""

import torch
from transformers import SwitchTransformersConfig, SwitchTransformersForConditionalGeneration

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = SwitchTransformersConfig(
    vocab_size=4096,
    d_model=128,
    d_ff=256,
    d_kv=32,
    num_layers=4,
    num_decoder_layers=4,
    num_heads=4,
    num_experts=8,
    num_sparse_encoder_layers=2,
    num_sparse_decoder_layers=2,
    decoder_start_token_id=0,
)
model = SwitchTransformersForConditionalGeneration(config).to(device)
optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-3)
for step in range(4):
    source = torch.randint(1, 4096, (4, 64), device=device)
    target = torch.randint(1, 4096, (4, 32), device=device)
    loss = model(input_ids=source, labels=target).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
