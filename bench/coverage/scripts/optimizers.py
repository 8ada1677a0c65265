"""One small transformer trained with the optimizer asked for."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", default="adamw-fused")
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Linear(256, 256)).to(device)
matrices = [p for p in model.parameters() if p.ndim == 2]
others = [p for p in model.parameters() if p.ndim != 2]
optimizers = {
    "adamw-fused": lambda: [torch.optim.AdamW(model.parameters(), fused=True)],
    "adamw-foreach": lambda: [torch.optim.AdamW(model.parameters(), foreach=True)],
    "adamw-loop": lambda: [torch.optim.AdamW(model.parameters(), foreach=False, amsgrad=True)],
    "adafactor": lambda: [torch.optim.Adafactor(model.parameters())],
    "muon": lambda: [torch.optim.Muon(matrices), torch.optim.AdamW(others)],
    "lbfgs": lambda: [torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, history_size=5)],
}[args.optimizer]()
x, y = torch.randn(8, 64, 256, device=device), torch.randn(8, 64, 256, device=device)


def closure():
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(4):
    if args.optimizer == "lbfgs":
        loss = optimizers[0].step(closure)
    else:
        loss = closure()
        for optimizer in optimizers:
            optimizer.step()
    print(step, loss.item())
