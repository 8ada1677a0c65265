"""One trunk, three heads, gradients of each task compared before they are added."""

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
trunk = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()).to(device)
heads = nn.ModuleDict(
    {
        "label": nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
        "depth": nn.ConvTranspose2d(64, 1, 2, 2),
        "edges": nn.ConvTranspose2d(64, 1, 2, 2),
    }
).to(device)
weights = nn.Parameter(torch.zeros(3, device=device))
optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters(), weights], lr=1e-3)
for step in range(4):
    x = torch.randn(8, 3, 32, 32, device=device)
    features = trunk(x)
    losses = torch.stack(
        [
            F.cross_entropy(heads["label"](features), torch.randint(0, 10, (8,), device=device)),
            F.l1_loss(heads["depth"](features), torch.rand(8, 1, 32, 32, device=device)),
            F.binary_cross_entropy_with_logits(heads["edges"](features), torch.rand(8, 1, 32, 32, device=device)),
        ]
    )
    shares = [torch.autograd.grad(loss, trunk[0].weight, retain_graph=True)[0].flatten() for loss in losses]
    agreement = F.cosine_similarity(shares[0], shares[1], dim=0).item()
    loss = (losses * torch.exp(-weights) + weights).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), agreement)
