"""A vision transformer: momentum, one cycle of the learning rate, dropout, an evaluation after each epoch."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, HEADS, SIDE, PATCH = (8, 32, 4, 32, 8) if options.small else (8, 384, 6, 224, 16)
CLASSES = 100


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)
        )

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (SIDE // PATCH) ** 2 + 1, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


torch.manual_seed(0)
device = torch.device(options.device)
images, labels = torch.randn(4 * options.batch, 3, SIDE, SIDE), torch.randint(CLASSES, (4 * options.batch,))
train = DataLoader(TensorDataset(images, labels), batch_size=options.batch, shuffle=True, drop_last=True)
valid = DataLoader(TensorDataset(images, labels), batch_size=2 * options.batch)
model = ViT().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=len(train))
model.train()
for images, labels in train:
    images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
    loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    schedule.step()
model.eval()
right = 0
with torch.no_grad():
    for images, labels in valid:
        right += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
print(f"loss {loss.item():.4f}, {right} right")
