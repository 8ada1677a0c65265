"""Speech recognition: Wav2Vec2 with a CTC loss, the feature encoder frozen."""

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = Wav2Vec2ForCTC(
    Wav2Vec2Config(
        vocab_size=32,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=512,
        conv_dim=(128,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        ctc_loss_reduction="mean",
        mask_time_prob=0.05,
        mask_time_length=2,
    )
).to(device)
model.freeze_feature_encoder()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-4)
model.train()
for step in range(4):
    sound = torch.randn(2, 16000, device=device)
    text = torch.randint(1, 32, (2, 12), device=device)
    loss = model(sound, labels=text).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
