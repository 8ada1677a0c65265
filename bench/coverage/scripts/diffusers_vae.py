"""A KL autoencoder trained against a small discriminator."""

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
vae = AutoencoderKL(
    block_out_channels=(32, 64),
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
    norm_num_groups=8,
).to(device)
critic = nn.Sequential(
    nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(64, 1, 4)
).to(device)
first = torch.optim.Adam(vae.parameters(), lr=1e-4, betas=(0.5, 0.9))
second = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.5, 0.9))
for step in range(4):
    x = torch.randn(4, 3, 64, 64, device=device)
    posterior = vae.encode(x).latent_dist
    y = vae.decode(posterior.sample()).sample
    loss = F.l1_loss(y, x) + 1e-6 * posterior.kl().mean() - 0.1 * critic(y).mean()
    first.zero_grad()
    loss.backward()
    first.step()
    real, fake = critic(x), critic(y.detach())
    hinge = F.relu(1 - real).mean() + F.relu(1 + fake).mean()
    second.zero_grad()
    hinge.backward()
    second.step()
    print(step, loss.item(), hinge.item())
