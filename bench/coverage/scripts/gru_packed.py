"""A bidirectional GRU on packed sequences of different lengths."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(2000, 64, padding_idx=0)
        self.rnn = nn.GRU(64, 128, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(256, 12)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embed(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.head(out)


model = Tagger().to(device)
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss(ignore_index=-1)
random = torch.Generator().manual_seed(0)
for step in range(5):
    lengths = torch.randint(5, 40, (16,), generator=random)
    ids = pad_sequence([torch.randint(1, 2000, (n,)) for n in lengths.tolist()], batch_first=True).to(device)
    tags = torch.where(ids > 0, ids % 12, -1)
    loss = criterion(model(ids, lengths).flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
