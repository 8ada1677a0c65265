"""Training with torchao's float8 linear layers."""

import torch
from torch import nn
from torchao.float8 import Float8LinearConfig, convert_to_float8_training

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.LayerNorm(1024)).cuda().bfloat16()
convert_to_float8_training(model, config=Float8LinearConfig.from_recipe_name("tensorwise"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    x = torch.randn(512, 1024, device="cuda", dtype=torch.bfloat16)
    loss = model(x).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
