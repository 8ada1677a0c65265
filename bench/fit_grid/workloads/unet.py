"""A U-Net for segmentation: skip connections hold the early features until the very end."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
WIDTH, DEPTH, SIDE, CLASSES = (8, 4, 32, 4) if options.small else (32, 4, 192, 21)


class DoubleConv(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inner, outer, 3, padding=1),
            nn.GroupNorm(8, outer),
            nn.SiLU(),
            nn.Conv2d(outer, outer, 3, padding=1),
            nn.GroupNorm(8, outer),
            nn.SiLU(),
        )

    def forward(self, x):
        return self.layers(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [WIDTH * 2**level for level in range(DEPTH + 1)]
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in zip([3, *widths], widths[:-1]))
        self.middle = DoubleConv(widths[-2], widths[-1])
        self.upsample = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.up = nn.ModuleList(DoubleConv(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(WIDTH, CLASSES, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for upsample, block in zip(self.upsample, self.up):
            x = block(torch.cat((skips.pop(), upsample(x)), dim=1))
        return self.head(x)


class Scenes(Dataset):
    def __len__(self):
        return 4 * options.batch

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return {
            "image": torch.randn(3, SIDE, SIDE, generator=generator),
            "mask": torch.randint(CLASSES, (SIDE, SIDE), generator=generator),
        }


torch.manual_seed(0)
device = torch.device(options.device)
loader = DataLoader(Scenes(), batch_size=options.batch, shuffle=True)
model = UNet().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step, batch in enumerate(loader):
    image, mask = batch["image"].to(device), batch["mask"].to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(image), mask)
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
