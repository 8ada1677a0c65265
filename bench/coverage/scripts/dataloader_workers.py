"""A loader with workers, pinned memory, a custom collate and a random sampler with weights."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)


class Sequences(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        n = 8 + i % 24
        return torch.full((n,), i, dtype=torch.long), i % 5


def collate(rows):
    ids, labels = zip(*rows)
    return nn.utils.rnn.pad_sequence(ids, batch_first=True), torch.tensor(labels)


model = nn.Sequential(nn.Embedding(64, 128), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 5)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
sampler = WeightedRandomSampler(torch.arange(1.0, 65.0), 64)
loader = DataLoader(
    Sequences(),
    16,
    sampler=sampler,
    num_workers=2,
    pin_memory=True,
    persistent_workers=True,
    prefetch_factor=2,
    collate_fn=collate,
)
for epoch in range(2):
    for ids, labels in loader:
        out = model(ids.to(device, non_blocking=True)).mean(1)
        loss = nn.functional.cross_entropy(out, labels.to(device, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
