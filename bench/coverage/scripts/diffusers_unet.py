"""Unconditional image diffusion with diffusers: UNet, EMA, then a few steps of sampling."""

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=32,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(32, 64, 64),
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8,
).to(device)
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
ema = EMAModel(unet.parameters(), decay=0.999)
ema.to(device)
for step in range(4):
    clean = torch.randn(8, 3, 32, 32, device=device)
    noise = torch.randn_like(clean)
    timesteps = torch.randint(0, 1000, (8,), device=device)
    loss = F.mse_loss(unet(scheduler.add_noise(clean, noise, timesteps), timesteps).sample, noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    ema.step(unet.parameters())
    print(step, loss.item())
unet.eval()
scheduler.set_timesteps(5)
with torch.no_grad():
    image = torch.randn(4, 3, 32, 32, device=device)
    for t in scheduler.timesteps:
        image = scheduler.step(unet(image, t).sample, t, image).prev_sample
print(image.shape)
