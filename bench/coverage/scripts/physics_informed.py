"""A physics-informed network: second derivatives by autograd, Adam first and LBFGS after."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
inside = torch.rand(2000, 2, device=device)
border = torch.rand(200, 2, device=device)
border[:, 0] = 0


def residual():
    x = inside.clone().requires_grad_()
    u = net(x)
    (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)
    return (first[:, 1:] - 0.01 * second[:, :1]).square().mean() + net(border).square().mean()


adam = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(4):
    adam.zero_grad()
    loss = residual()
    loss.backward()
    adam.step()
    print(step, loss.item())
lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=5, history_size=10, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    loss = residual()
    loss.backward()
    return loss


print(lbfgs.step(closure).item())
