"""torchtitan's debug Llama trained in a plain loop with its own model registry and loss."""

import torch
import torch.nn.functional as F
from torchtitan.models.llama3 import model_registry

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
spec = model_registry("debugmodel")
model = spec.model.build()
model.init_states()
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=8e-4, betas=(0.9, 0.95), foreach=True)
positions = torch.arange(256, device=device).expand(2, -1)
for step in range(4):
    tokens = torch.randint(0, 2048, (2, 256), device=device)
    logits = model(tokens, positions, model.get_attention_masks(positions))
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
