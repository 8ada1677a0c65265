"""Whisper fine-tuned on random spectrograms, then a transcript."""

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
config = WhisperConfig(
    vocab_size=2048,
    d_model=128,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=512,
    decoder_ffn_dim=512,
    max_source_positions=500,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    suppress_tokens=None,
    begin_suppress_tokens=None,
)
model = WhisperForConditionalGeneration(config).to(device)
model.freeze_encoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5)
features = torch.randn(2, 80, 1000, device=device)
labels = torch.randint(3, 2048, (2, 40), device=device)
labels[:, 30:] = -100
for step in range(4):
    loss = model(input_features=features, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, float(loss))
with torch.no_grad():
    print(model(input_features=features, decoder_input_ids=labels.clamp_min(0)).logits.argmax(-1).shape)
