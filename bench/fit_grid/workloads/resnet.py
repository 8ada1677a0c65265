"""A residual network with batch normalization: momentum, steps of the learning rate, an evaluation."""

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
WIDTH, SIDE, DEPTHS = (8, 64, (2, 3, 3, 2)) if options.small else (64, 160, (2, 3, 3, 2))


class Bottleneck(nn.Module):
    def __init__(self, inner, width, stride):
        super().__init__()
        outer = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, classes=100):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        stages, inner = [], WIDTH
        for number, depth in enumerate(DEPTHS):
            width = WIDTH * 2**number
            blocks = []
            for index in range(depth):
                blocks.append(Bottleneck(inner, width, 2 if index == 0 and number else 1))
                inner = 4 * width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(inner, classes)

    def forward(self, images):
        return self.fc(self.stages(self.stem(images)).mean((2, 3)))


torch.manual_seed(0)
device = torch.device(options.device)
data = TensorDataset(torch.randn(4 * options.batch, 3, SIDE, SIDE), torch.randint(100, (4 * options.batch,)))
train = DataLoader(data, batch_size=options.batch, shuffle=True)
valid = DataLoader(data, batch_size=options.batch)
model = ResNet().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
model.train()
for images, labels in train:
    images, labels = images.to(device), labels.to(device)
    output = model(images)
    loss = F.cross_entropy(output, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
schedule.step()
model.eval()
with torch.no_grad():
    right = sum((model(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in valid)
print(f"loss {loss.item():.4f}, {right} right")
