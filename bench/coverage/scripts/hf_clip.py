"""Contrastive training of CLIP on random pairs."""

import torch
from transformers import CLIPConfig, CLIPModel

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
text = {"vocab_size": 4096, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4, "eos_token_id": 2}
vision = {"image_size": 64, "patch_size": 8, "hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 3}
model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=128)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
for step in range(4):
    ids = torch.randint(3, 4096, (8, 32), device=device)
    ids[:, -1] = 2
    pixels = torch.randn(8, 3, 64, 64, device=device)
    out = model(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=pixels, return_loss=True)
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    print(step, out.loss.item(), tuple(out.logits_per_image.shape))
