"""DeepSpeed ZeRO in the stage asked for, bfloat16, one process or several."""

import os
import sys

import deepspeed
import torch
from torch import nn

stage = int(sys.argv[1]) if len(sys.argv) > 1 else 2
for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
    os.environ.setdefault(name, value)
os.environ.setdefault("MASTER_PORT", "29517")

torch.manual_seed(0)
model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.GELU())], nn.Linear(512, 10))
config = {
    "train_micro_batch_size_per_gpu": 8,
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_optimization": {"stage": stage, "overlap_comm": False},
}
engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for step in range(4):
    x = torch.randn(8, 512, device=engine.device, dtype=torch.bfloat16)
    loss = engine(x).float().square().mean()
    engine.backward(loss)
    engine.step()
    print(step, loss.item())
