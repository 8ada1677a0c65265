"""DCGAN: two networks, two optimizers, samples written at the end of an epoch."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
generator = nn.Sequential(
    nn.ConvTranspose2d(100, 128, 4, 1, 0, bias=False),
    nn.BatchNorm2d(128),
    nn.ReLU(True),
    nn.ConvTranspose2d(128, 64, 4, 2, 1, bias=False),
    nn.BatchNorm2d(64),
    nn.ReLU(True),
    nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False),
    nn.Tanh(),
).to(device)
critic = nn.Sequential(
    nn.Conv2d(3, 64, 4, 2, 1),
    nn.LeakyReLU(0.2, True),
    nn.Conv2d(64, 128, 4, 2, 1),
    nn.BatchNorm2d(128),
    nn.LeakyReLU(0.2, True),
    nn.Conv2d(128, 1, 4),
    nn.Flatten(0),
).to(device)
first = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
second = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
fixed = torch.randn(16, 100, 1, 1, device=device)
for step in range(4):
    real = torch.randn(16, 3, 16, 16, device=device)
    fake = generator(torch.randn(16, 100, 1, 1, device=device))
    second.zero_grad()
    loss = criterion(critic(real), torch.ones(16, device=device))
    loss = loss + criterion(critic(fake.detach()), torch.zeros(16, device=device))
    loss.backward()
    second.step()
    first.zero_grad()
    trick = criterion(critic(fake), torch.ones(16, device=device))
    trick.backward()
    first.step()
    print(step, loss.item(), trick.item())
with torch.no_grad():
    torch.save(generator(fixed).cpu(), "samples.pt")
