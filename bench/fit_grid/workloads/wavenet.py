"""Dilated convolutions over sound, as in WaveNet: gates, residuals, and skips that are summed at the end."""

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
CYCLES, DILATIONS, WIDTH, SKIP, LENGTH = (2, 5, 8, 16, 200) if options.small else (2, 5, 64, 128, 16000)
LEVELS = 256


class Layer(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.pad = dilation
        self.gates = nn.Conv1d(WIDTH, 2 * WIDTH, 2, dilation=dilation)
        self.residual, self.skip = nn.Conv1d(WIDTH, WIDTH, 1), nn.Conv1d(WIDTH, SKIP, 1)

    def forward(self, x):
        content, gate = self.gates(F.pad(x, (self.pad, 0))).chunk(2, dim=1)
        y = torch.tanh(content) * torch.sigmoid(gate)
        return x + self.residual(y), self.skip(y)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(LEVELS, WIDTH)
        self.layers = nn.ModuleList(Layer(2**power) for _ in range(CYCLES) for power in range(DILATIONS))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(SKIP, SKIP, 1), nn.ReLU(), nn.Conv1d(SKIP, LEVELS, 1))

    def forward(self, samples):
        x, total = self.embed(samples).transpose(1, 2), 0.0
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        return self.head(total)


class Sounds(Dataset):
    def __len__(self):
        return 3 * options.batch

    def __getitem__(self, index):
        return torch.randint(LEVELS, (LENGTH + 1,), generator=torch.Generator().manual_seed(index))


torch.manual_seed(0)
loader = DataLoader(Sounds(), batch_size=options.batch, shuffle=True)
model = WaveNet().to(options.device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.99)
for epoch in range(2):
    for samples in loader:
        samples = samples.to(options.device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(samples[:, :-1]), samples[:, 1:])
        loss.backward()
        optimizer.step()
    schedule.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
