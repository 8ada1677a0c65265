"""An MLP-mixer: no attention, two kinds of products, a soft target, evaluated after training."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=48)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
if options.small:
    options.batch = min(options.batch, 16)
LAYERS, WIDTH, SIDE, PATCH = (8, 32, 32, 8) if options.small else (8, 384, 192, 16)
CLASSES, PATCHES = 100, (SIDE // PATCH) ** 2


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.tokens = nn.Sequential(nn.Linear(PATCHES, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, PATCHES))
        self.channels = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.layers = nn.Sequential(*(Mixer() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)).mean(1))


def main():
    torch.manual_seed(0)
    rows = 4 * options.batch
    targets = F.one_hot(torch.randint(CLASSES, (rows,)), CLASSES).float() * 0.9 + 0.1 / CLASSES
    data = TensorDataset(torch.randn(rows, 3, SIDE, SIDE), targets)
    train = DataLoader(data, batch_size=options.batch, shuffle=True)
    valid = DataLoader(data, batch_size=options.batch)
    model = Network().to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(train))
    for images, target in train:
        loss = F.cross_entropy(model(images.to(options.device)), target.to(options.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    total = 0.0
    with torch.inference_mode():
        for images, target in valid:
            total += F.cross_entropy(model(images.to(options.device)), target.to(options.device)).item()
    print(f"validation loss {total / len(valid):.4f}")


if __name__ == "__main__":
    main()
