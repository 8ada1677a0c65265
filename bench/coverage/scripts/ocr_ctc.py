"""Text recognition: convolutions, a bidirectional LSTM and a CTC loss."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


class CRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d((2, 1)),
            nn.AdaptiveAvgPool2d((1, None)),
        )
        self.rnn = nn.LSTM(64, 128, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(256, 40)

    def forward(self, x):
        features = self.body(x).squeeze(2).transpose(1, 2)
        return self.head(self.rnn(features)[0]).log_softmax(-1)


model = CRNN().to(device)
optimizer = torch.optim.Adadelta(model.parameters())
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
for step in range(4):
    images = torch.randn(8, 1, 32, 96, device=device)
    lengths = torch.randint(3, 12, (8,))
    text = torch.randint(1, 40, (int(lengths.sum()),))
    out = model(images).transpose(0, 1)
    loss = criterion(out, text.to(device), torch.full((8,), out.shape[0]), lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    best = out.argmax(-1).T.cpu().tolist()
    print(step, loss.item(), len(best))
