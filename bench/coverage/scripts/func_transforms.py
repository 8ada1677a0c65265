"""torch.func: gradients per sample, an ensemble by vmap, a Hessian-vector product."""

import torch
from torch import nn
from torch.func import functional_call, grad, jvp, stack_module_state, vmap

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 1)).to(device)
parameters = dict(model.named_parameters())


def loss_of(parameters, x, y):
    return (functional_call(model, parameters, (x[None],)) - y).square().mean()


each = vmap(grad(loss_of), in_dims=(None, 0, 0))
for step in range(4):
    x, y = torch.randn(64, 32, device=device), torch.randn(64, 1, device=device)
    gradients = each(parameters, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    scale = (1.0 / norms).clamp(max=1.0)
    with torch.no_grad():
        for name, p in parameters.items():
            clipped = torch.einsum("n,n...->...", scale, gradients[name]) / 64
            p.sub_(0.1 * (clipped + 0.01 * torch.randn_like(p)))
    print(step, norms.max().item())

ensemble = [nn.Linear(32, 8).to(device) for _ in range(10)]
stacked, buffers = stack_module_state(ensemble)
out = vmap(lambda p, b, x: functional_call(ensemble[0], (p, b), (x,)), in_dims=(0, 0, None))(stacked, buffers, x)
direction = {name: torch.ones_like(p) for name, p in parameters.items()}
whole = grad(lambda p: (functional_call(model, p, (x,)) - y).square().mean())
_, product = jvp(whole, (parameters,), (direction,))
print(out.shape, {name: tuple(p.shape) for name, p in product.items()})
