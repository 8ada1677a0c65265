"""A 3-D U-Net on volumes: instance norm, transposed convolutions, dice loss, sliding windows for validation."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


def block(inner, outer):
    return nn.Sequential(
        nn.Conv3d(inner, outer, 3, padding=1),
        nn.InstanceNorm3d(outer, affine=True),
        nn.LeakyReLU(inplace=True),
        nn.Conv3d(outer, outer, 3, padding=1),
        nn.InstanceNorm3d(outer, affine=True),
        nn.LeakyReLU(inplace=True),
    )


class UNet3D(nn.Module):
    def __init__(self, width=8, classes=3):
        super().__init__()
        self.first, self.second, self.third = block(1, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.pool = nn.MaxPool3d(2)
        self.up2 = nn.ConvTranspose3d(4 * width, 2 * width, 2, stride=2)
        self.up1 = nn.ConvTranspose3d(2 * width, width, 2, stride=2)
        self.back2, self.back1 = block(4 * width, 2 * width), block(2 * width, width)
        self.head = nn.Conv3d(width, classes, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(self.pool(a))
        c = self.third(self.pool(b))
        b = self.back2(torch.cat([self.up2(c), b], 1))
        return self.head(self.back1(torch.cat([self.up1(b), a], 1)))


def dice(logits, target):
    probability = logits.softmax(1)
    wanted = nn.functional.one_hot(target, logits.shape[1]).movedim(-1, 1).float()
    return 1 - (2 * (probability * wanted).sum((2, 3, 4)) / (probability + wanted).sum((2, 3, 4))).mean()


model = UNet3D().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(1, 1, 32, 32, 32, device=device)
    y = torch.randint(0, 3, (1, 32, 32, 32), device=device)
    loss = dice(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
model.eval()
whole = torch.randn(1, 1, 48, 48, 48)
votes = torch.zeros(1, 3, 48, 48, 48)
with torch.no_grad():
    for i in (0, 16):
        for j in (0, 16):
            part = whole[:, :, i : i + 32, j : j + 32, :32].to(device)
            votes[:, :, i : i + 32, j : j + 32, :32] += model(part).cpu()
print(votes.argmax(1).float().mean())
