"""Averaged weights two ways: an exponential average each step, stochastic averages at the end, then BN statistics."""

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(128, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 10)).to(device)
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
swa = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=1)
loader = DataLoader(TensorDataset(torch.randn(256, 128), torch.randint(0, 10, (256,))), 64)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
    swa.update_parameters(model)
    scheduler.step()
    print(epoch, loss.item())
update_bn(loader, swa, device=device)
swa.eval()
with torch.no_grad():
    print(sum((swa(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in loader))
