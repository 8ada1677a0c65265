"""The word language model with an LSTM: tied weights, truncated backpropagation, SGD by hand, validation."""

import math

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
words, width, batch, length = 5000, 200, 10, 35


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, num_layers=2, dropout=0.2)
        self.head = nn.Linear(width, words)
        self.head.weight = self.embed.weight

    def forward(self, x, state):
        out, state = self.rnn(self.embed(x), state)
        return self.head(out).view(-1, words), state


data = torch.randint(0, words, (4 * length + 1, batch)).to(device)
model = Model().to(device)
for epoch in range(2):
    model.train()
    state = tuple(torch.zeros(2, batch, width, device=device) for _ in range(2))
    for start in range(0, 4 * length, length):
        state = tuple(s.detach() for s in state)
        model.zero_grad()
        out, state = model(data[start : start + length], state)
        loss = nn.functional.cross_entropy(out, data[start + 1 : start + length + 1].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-20)
    model.eval()
    with torch.no_grad():
        out, _ = model(data[:length], state)
        loss = nn.functional.cross_entropy(out, data[1 : length + 1].reshape(-1))
    print(epoch, loss.item(), math.exp(min(loss.item(), 20)))
torch.save(model.state_dict(), "lm.pt")
