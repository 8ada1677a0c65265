"""A model quantized to int8 weights by torchao, then used."""

import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to(device, torch.bfloat16).eval()
quantize_(model, Int8WeightOnlyConfig())
with torch.no_grad():
    for _ in range(4):
        print(model(torch.randn(64, 1024, device=device, dtype=torch.bfloat16)).float().mean().item())
