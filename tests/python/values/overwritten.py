"""Known values that a kernel overwrites in place, each in a way of its own: none of them may be read back as known."""

import torch

READ = []


def check(tensor) -> None:
    READ.append(tensor.tolist())


def numbers(dtype=torch.int64):
    return torch.arange(12).to(dtype).cuda()


indices = torch.tensor([1, 2]).cuda()
x = numbers().view(3, 4)
x[:, ::2] += 1
check(x)
x = numbers(torch.float32).view(3, 4)
x[:, 1:3].mul_(2)
check(x)
x = torch.zeros(3, 4, device="cuda")
x[:, 1] = 5
check(x)
x = torch.zeros(3, 4, device="cuda")
x[:, ::2].copy_(torch.ones(3, 2))
check(x)
x = numbers().view(3, 4)
x[x > 5] = 0
check(x)
x = numbers()
x.scatter_(0, indices, 99)
check(x)
x = numbers()
x.index_fill_(0, indices, 99)
check(x)
x = numbers()
x.index_add_(0, indices, indices)
check(x)
x = numbers()
x[indices] = 77
check(x)
x = numbers(torch.float32)
x.clamp_(2, 4)
check(x)
x = numbers(torch.float32)
torch.cumsum(x, 0, out=x)
check(x)
x = numbers(torch.float32)
x.normal_()
check(x)
x = numbers(torch.float32)
torch._foreach_add_([x], 1.0)
check(x)
x = numbers(torch.float32).view(3, 4)
torch.mm(torch.ones(3, 3, device="cuda"), torch.ones(3, 4, device="cuda"), out=x)
check(x)
print(f"{len(READ)} reads")
