"""A scripted module trained, saved, loaded and traced."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(128, 256), nn.Linear(256, 10)

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        h = self.a(x)
        for _ in range(times):
            h = torch.tanh(h) * torch.sigmoid(h)
        return self.b(h)


model = torch.jit.script(Gate()).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = nn.functional.cross_entropy(
        model(torch.randn(64, 128, device=device), 3), torch.randint(0, 10, (64,), device=device)
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
model.save("gate.pt")
loaded = torch.jit.load("gate.pt", map_location=device)
traced = torch.jit.trace(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).to(device), torch.randn(1, 3, 32, 32).to(device))
print(loaded(torch.randn(2, 128, device=device), 1).shape, traced(torch.randn(4, 3, 32, 32, device=device)).shape)
