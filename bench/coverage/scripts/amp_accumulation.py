"""float16 with a loss scaler, accumulation over four batches and clipping of unscaled gradients."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler(device)
for step in range(16):
    x = torch.randn(64, 512, device=device)
    with torch.autocast(device, torch.float16):
        loss = nn.functional.mse_loss(model(x), x) / 4
    scaler.scale(loss).backward()
    if step % 4 == 3:
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        print(step, loss.item(), norm.item(), scaler.get_scale())
