"""A diffusion transformer trained on latents with classes."""

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, DiTTransformer2DModel

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = DiTTransformer2DModel(
    num_attention_heads=4,
    attention_head_dim=48,
    in_channels=4,
    out_channels=4,
    num_layers=4,
    sample_size=32,
    patch_size=2,
    norm_num_groups=8,
    num_embeds_ada_norm=1000,
).to(device)
scheduler = DDPMScheduler()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    latents = torch.randn(4, 4, 32, 32, device=device)
    noise = torch.randn_like(latents)
    timesteps = torch.randint(0, 1000, (4,), device=device)
    classes = torch.randint(0, 1000, (4,), device=device)
    with torch.autocast(device, torch.bfloat16):
        out = model(scheduler.add_noise(latents, noise, timesteps), timesteps, classes).sample
        loss = F.mse_loss(out.float(), noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
