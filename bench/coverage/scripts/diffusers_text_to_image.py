"""Fine-tuning of a latent text-to-image model: frozen VAE and text encoder, a conditional UNet trained in fp16."""

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel

device = "cuda" if torch.cuda.is_available() else "cpu"
half = torch.float16 if device == "cuda" else torch.bfloat16
torch.manual_seed(0)
vae = AutoencoderKL(
    block_out_channels=(32, 64),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    norm_num_groups=8,
)
text = CLIPTextModel(
    CLIPTextConfig(vocab_size=2048, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4)
)
unet = UNet2DConditionModel(
    sample_size=32,
    block_out_channels=(32, 64),
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=128,
    attention_head_dim=8,
    norm_num_groups=8,
    layers_per_block=1,
)
vae.requires_grad_(False).to(device, half)
text.requires_grad_(False).to(device, half)
unet.to(device).train()
unet.enable_gradient_checkpointing()
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5)
scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
scheduler = DDPMScheduler()
for step in range(4):
    pixels = torch.randn(2, 3, 64, 64, device=device, dtype=half)
    ids = torch.randint(0, 2048, (2, 77), device=device)
    latents = vae.encode(pixels).latent_dist.sample() * vae.config.scaling_factor
    noise = torch.randn_like(latents)
    timesteps = torch.randint(0, 1000, (2,), device=device)
    noisy = scheduler.add_noise(latents, noise, timesteps)
    with torch.autocast(device, half):
        predicted = unet(noisy, timesteps, text(ids).last_hidden_state).sample
    loss = F.mse_loss(predicted.float(), noise.float())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(step, loss.item())
