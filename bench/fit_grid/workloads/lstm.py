"""A language model of LSTM layers: the recurrence is one operation of cuDNN, the softmax is most of the rest."""

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
LAYERS, WIDTH, LENGTH, VOCAB = (3, 24, 12, 97) if options.small else (3, 512, 128, 20000)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(nn.LSTM(WIDTH, WIDTH, batch_first=True) for _ in range(LAYERS))
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = self.dropout(layer(x)[0])
        return self.head(x)


torch.manual_seed(0)
data = TensorDataset(torch.randint(VOCAB, (4 * options.batch, LENGTH + 1)))
loader = DataLoader(data, batch_size=options.batch, shuffle=True)
model = Model().to(options.device)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step, (ids,) in enumerate(loader):
    ids = ids.to(options.device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(ids[:, :-1]).reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
