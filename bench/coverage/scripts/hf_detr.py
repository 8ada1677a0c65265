"""DETR from the Hugging Face library: the matching runs on the host in scipy."""

import torch
from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
backbone = ResNetConfig(embedding_size=32, hidden_sizes=[32, 64, 96, 128], depths=[1, 1, 1, 1], out_features=["stage4"])
config = DetrConfig(
    use_timm_backbone=False,
    use_pretrained_backbone=False,
    backbone=None,
    backbone_config=backbone,
    d_model=128,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=256,
    decoder_ffn_dim=256,
    num_queries=30,
    num_labels=10,
    auxiliary_loss=True,
)
model = DetrForObjectDetection(config).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    pixels = torch.randn(2, 3, 160, 160, device=device)
    targets = [
        {
            "class_labels": torch.randint(0, 10, (n,), device=device),
            "boxes": torch.rand(n, 4, device=device) * 0.3 + 0.2,
        }
        for n in (3, 7)
    ]
    out = model(pixel_values=pixels, labels=targets)
    optimizer.zero_grad()
    out.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    print(step, out.loss.item(), {name: float(value) for name, value in out.loss_dict.items()})
