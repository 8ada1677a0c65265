"""Convolutions in three dimensions over short films: group normalization, momentum, few but very large tensors."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
WIDTH, FRAMES, SIDE = (8, 8, 16) if options.small else (32, 16, 112)
CLASSES = 50


class Residual(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv3d(inner, outer, 3, stride, 1, bias=False), nn.GroupNorm(8, outer)
        self.conv2, self.norm2 = nn.Conv3d(outer, outer, 3, 1, 1, bias=False), nn.GroupNorm(8, outer)
        self.shortcut = nn.Conv3d(inner, outer, 1, stride, bias=False) if (stride, inner) != (1, outer) else None

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv3d(3, WIDTH, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        self.norm = nn.GroupNorm(8, WIDTH)
        self.layer1 = nn.Sequential(Residual(WIDTH, WIDTH, 1), Residual(WIDTH, WIDTH, 1))
        self.layer2 = nn.Sequential(Residual(WIDTH, 2 * WIDTH, 2), Residual(2 * WIDTH, 2 * WIDTH, 1))
        self.layer3 = nn.Sequential(Residual(2 * WIDTH, 4 * WIDTH, 2), Residual(4 * WIDTH, 4 * WIDTH, 1))
        self.head = nn.Linear(4 * WIDTH, CLASSES)

    def forward(self, film):
        x = F.relu(self.norm(self.stem(film)))
        return self.head(self.layer3(self.layer2(self.layer1(x))).mean((2, 3, 4)))


class Films(Dataset):
    def __len__(self):
        return 4 * options.batch

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, FRAMES, SIDE, SIDE, generator=generator), index % CLASSES


torch.manual_seed(0)
device = torch.device(options.device)
loader = DataLoader(Films(), batch_size=options.batch, shuffle=True)
model = Network().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
criterion = nn.CrossEntropyLoss()
for step, (films, labels) in enumerate(loader):
    loss = criterion(model(films.to(device)), labels.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
