"""A linear layer with a product in float8 written by hand."""

import torch

e4m3 = torch.float8_e4m3fn


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        scale_x = x.abs().max().float() / 448
        scale_w = w.abs().max().float() / 448
        x8, w8 = (x / scale_x).to(e4m3), (w / scale_w).to(e4m3)
        ctx.save_for_backward(x8, w8, scale_x, scale_w)
        return torch._scaled_mm(x8, w8.t(), scale_a=scale_x, scale_b=scale_w, out_dtype=torch.bfloat16)

    @staticmethod
    def backward(ctx, g):
        x8, w8, scale_x, scale_w = ctx.saved_tensors
        return g @ (w8.to(g.dtype) * scale_w.to(g.dtype)), g.t() @ (x8.to(g.dtype) * scale_x.to(g.dtype))


torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16) * 0.02)
optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
for step in range(4):
    x = torch.randn(256, 1024, device="cuda", dtype=torch.bfloat16)
    loss = Product.apply(x, weight).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
