"""BART summarization, plain loop, then beam search."""

import torch
from transformers import BartConfig, BartForConditionalGeneration

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = BartForConditionalGeneration(
    BartConfig(
        vocab_size=4096,
        d_model=128,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=512,
        decoder_ffn_dim=512,
        forced_eos_token_id=None,
    )
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
article = torch.randint(4, 4096, (4, 128), device=device)
summary = torch.randint(4, 4096, (4, 32), device=device)
for _ in range(4):
    loss = model(input_ids=article, attention_mask=torch.ones_like(article), labels=summary).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(loss.item())
model.eval()
model.generation_config.eos_token_id = None
print(model.generate(article, num_beams=4, max_length=20, min_length=20, early_stopping=True).shape)
