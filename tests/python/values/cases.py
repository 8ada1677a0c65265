"""Operations on small known tensors, each done on the device and on the host; prints one line of JSON a case.

Each result is read on a line number of its own, so that an assumed value can be told to the case that read it.
"""

from __future__ import annotations

import json
import sys
import types
import warnings

import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")
torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

WHOLE = (torch.int64, torch.int32, torch.int16, torch.uint8)
FLOAT = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

# What is tried on every type of number: x and y are alike, r is one row, c one column, b a mask, z is never zero.
ANY = {
    "eq": lambda v: v.x == v.y,
    "ne row": lambda v: v.x != v.r,
    "lt column": lambda v: v.x < v.c,
    "ge scalar": lambda v: v.x >= 2,
    "table of equals": lambda v: v.x.flatten()[:9, None] == v.y.flatten()[None, :9],
    "all": lambda v: v.x.all(),
    "all of rows": lambda v: v.x.bool().all(-1),
    "any of columns": lambda v: v.b.any(0),
    "count of mask": lambda v: v.b.sum(),
    "counts of mask": lambda v: v.b.sum(-1),
    "max": lambda v: v.x.max(),
    "min": lambda v: v.x.min(),
    "amax": lambda v: v.x.amax(-1),
    "amin": lambda v: v.x.amin(0),
    "aminmax": lambda v: torch.stack(v.x.aminmax()),
    "max of rows": lambda v: list(v.x.max(-1)),
    "min of columns": lambda v: list(v.x.min(0)),
    "argmax": lambda v: v.x.argmax(),
    "argmax of rows": lambda v: v.x.argmax(-1),
    "argmin of columns": lambda v: v.x.argmin(0),
    "nonzero": lambda v: v.x.nonzero(),
    "nonzero of mask": lambda v: v.b.nonzero(),
    "where": lambda v: list(torch.where(v.b)),
    "masked": lambda v: v.x[v.b],
    "masked rows": lambda v: v.x[v.x[:, 0] > 2],
    "masked_select": lambda v: torch.masked_select(v.x, v.b),
    "masked_fill": lambda v: v.x.masked_fill(v.b, 3),
    "assign to mask": lambda v: put(v.x, v.b, 4),
    "assign values to mask": lambda v: put(v.x, v.b, v.y[v.b]),
    "masked_scatter": lambda v: v.x.masked_scatter(v.b, v.y),
    "choose": lambda v: torch.where(v.b, v.x, v.y),
    "choose scalar": lambda v: torch.where(v.b, v.x, torch.zeros((), dtype=v.x.dtype, device=v.x.device)),
    "clamp": lambda v: v.x.clamp(1, 3),
    "clamp below": lambda v: v.x.clamp(min=2),
    "clamp above": lambda v: v.x.clamp(max=2),
    "clamp by tensors": lambda v: torch.clamp(v.x, v.r, v.r + 2),
    "maximum": lambda v: torch.maximum(v.x, v.y),
    "minimum": lambda v: torch.minimum(v.x, v.r),
    "add": lambda v: v.x + v.y,
    "add row": lambda v: v.x + v.r,
    "add transposed": lambda v: v.x.t() + v.y.t(),
    "add scaled": lambda v: torch.add(v.x, v.y, alpha=2),
    "add scalar": lambda v: v.x + 3,
    "sub": lambda v: v.x - v.y,
    "rsub": lambda v: 3 - v.x,
    "mul": lambda v: v.x * v.y,
    "mul column": lambda v: v.x * v.c,
    "mul scalar": lambda v: v.x * 3,
    "floor division": lambda v: v.x // v.z,
    "floor division by scalar": lambda v: v.x // 2,
    "truncating division": lambda v: torch.div(v.x, v.z, rounding_mode="trunc"),
    "remainder": lambda v: v.x % 3,
    "remainder of tensors": lambda v: v.x % v.z,
    "fmod": lambda v: torch.fmod(v.x, v.z),
    "square": lambda v: v.x**2,
    "cube": lambda v: v.x**3,
    "abs": lambda v: v.x.abs(),
    "neg": lambda v: -v.x,
    "sign": lambda v: v.x.sign(),
    "sum of rows": lambda v: v.s.sum(-1),
    "sum of columns": lambda v: v.s.sum(0),
    "sum": lambda v: v.s.sum(),
    "cumsum": lambda v: v.s.cumsum(-1),
    "cumsum down": lambda v: v.s.cumsum(0),
    "cumsum of one dimension": lambda v: v.s.flatten().cumsum(0),
    "cummax": lambda v: list(v.x.cummax(-1)),
    "sort": lambda v: list(v.x.sort(dim=-1, stable=True)),
    "sort down": lambda v: list(v.x.sort(dim=0, stable=True)),
    "sort descending": lambda v: list(v.x.flatten().sort(descending=True, stable=True)),
    "argsort": lambda v: v.distinct.argsort(),
    "sort many": lambda v: list(v.many.sort(stable=True)),
    "topk": lambda v: list(v.distinct.topk(3)),
    "smallest": lambda v: list(v.distinct.topk(2, largest=False)),
    "topk of rows": lambda v: v.x.topk(2, dim=-1)[0],
    "kthvalue": lambda v: v.x.kthvalue(2, dim=-1)[0],
    "median": lambda v: v.x.flatten().median(),
    "mode": lambda v: v.modal.mode(-1)[0],
    "unique": lambda v: v.x.unique(),
    "unique all": lambda v: list(torch.unique(v.x, return_inverse=True, return_counts=True)),
    "unique many": lambda v: list(torch.unique(v.many, return_inverse=True, return_counts=True)),
    "unique_consecutive": lambda v: list(
        torch.unique_consecutive(v.x.flatten(), return_inverse=True, return_counts=True)
    ),
    "unique rows": lambda v: torch.unique(v.x, dim=0),
    "searchsorted": lambda v: torch.searchsorted(v.x.flatten().sort()[0], v.y),
    "isin": lambda v: torch.isin(v.x, v.r),
    "cat": lambda v: torch.cat([v.x, v.y], 1),
    "cat of many": lambda v: torch.cat([v.x.flatten(), v.r, v.y.flatten()]),
    "stack": lambda v: torch.stack([v.x, v.y]),
    "index": lambda v: v.x[v.i],
    "index columns": lambda v: v.x[:, v.i],
    "index pairs": lambda v: v.x[v.i, v.i],
    "index_select": lambda v: v.x.index_select(1, v.i),
    "gather": lambda v: v.x.gather(1, v.g),
    "scatter": lambda v: v.x.scatter(1, v.p, v.y),
    "scatter scalar": lambda v: v.x.scatter(1, v.g[:, :1], 1),
    "scatter_add": lambda v: v.x.scatter_add(1, v.g, v.y),
    "index_put": lambda v: v.x.clone().index_put_((v.i,), v.y[:3]),
    "index_put adding": lambda v: v.x.clone().index_put_((v.i,), v.y[:3], accumulate=True),
    "index_add": lambda v: v.x.index_add(0, v.i, v.y[:3]),
    "index_copy": lambda v: v.x.index_copy(0, v.i, v.y[:3]),
    "index_fill": lambda v: v.x.index_fill(0, v.i, 3),
    "take": lambda v: v.x.take(v.i),
    "put": lambda v: v.x.clone().put_(v.i, v.r[:3]),
    "tril": lambda v: v.x.tril(),
    "triu": lambda v: v.x.triu(1),
    "flip": lambda v: v.x.flip(0, 1),
    "roll": lambda v: v.x.roll(2),
    "roll columns": lambda v: v.x.roll(1, 1),
    "repeat_interleave": lambda v: v.r.repeat_interleave(v.n),
    "repeat": lambda v: v.x.repeat(2, 3),
    "transposed copy": lambda v: v.x.t().contiguous(),
    "to bool": lambda v: v.x.bool(),
    "to int": lambda v: v.x.int(),
    "to long": lambda v: v.x.long(),
    "to float": lambda v: v.x.float(),
    "to double": lambda v: v.x.t().double(),
    "to half": lambda v: v.x.half(),
    "to bfloat16": lambda v: v.x.bfloat16(),
    "of two types": lambda v: v.x.t() + v.k.t(),
    "padded": lambda v: F.pad(v.x, (1, 2)),
    "diff": lambda v: v.x.flatten().diff(),
    "ones": lambda v: torch.ones_like(v.x),
    "full strided": lambda v: put(v.x, (slice(None), slice(None, None, 2)), 3),
    "arange": lambda v: torch.arange(10, dtype=v.x.dtype, device=v.x.device),
    "eye": lambda v: torch.eye(4, dtype=v.x.dtype, device=v.x.device),
    "count_nonzero": lambda v: torch.count_nonzero(v.x),
    "sparse": lambda v: torch.stack([*v.x.to_sparse().indices()]),
    "logical_and": lambda v: torch.logical_and(v.x, v.b),
    "logical_not": lambda v: torch.logical_not(v.x),
    "equal": lambda v: torch.tensor(torch.equal(v.x, v.x)),
}
ONLY_WHOLE = {
    "and": lambda v: v.x & v.y,
    "or": lambda v: v.x | v.r,
    "xor": lambda v: v.x ^ 5,
    "not": lambda v: ~v.x,
    "shift left": lambda v: v.x << 1,
    "shift right": lambda v: v.x >> 1,
    "power": lambda v: v.x**4,
    "prod": lambda v: v.r[:5].prod(),
    "true division": lambda v: v.x / v.z,
    "mean": lambda v: v.x.float().mean(),
}
ONLY_INDICES = {
    "bincount": lambda v: torch.bincount(v.x.flatten()),
    "bincount with weights": lambda v: torch.bincount(v.x.flatten(), v.w),
    "one_hot": lambda v: F.one_hot(v.x),
    "repeats": lambda v: torch.repeat_interleave(v.n),
    "embedding": lambda v: F.embedding(v.x, v.table),
    "embedding of few": lambda v: F.embedding(v.i, v.table),
    "bucketize": lambda v: torch.bucketize(v.x, v.i.sort()[0]),
    "cumprod": lambda v: v.x.cumprod(-1),
    "split by counts": lambda v: list(v.table.split(v.n[:3].tolist())),
    "shape from max": lambda v: torch.zeros(int(v.x.max()) + 1, device=v.x.device),
    "positions": lambda v: torch.arange(int(v.x.max()), device=v.x.device)[None] < v.n[:, None],
    "triangle": lambda v: torch.ones(6, 6, dtype=torch.bool, device=v.x.device).triu(1),
    "tril_indices": lambda v: torch.tril_indices(4, 5, device=v.x.device),
    "cartesian_prod": lambda v: torch.cartesian_prod(v.i, v.n[:2]),
    "combinations": lambda v: torch.combinations(v.i),
    "expert counts": lambda v: F.one_hot(v.x.clamp(max=3), 4).sum((0, 1)),
    "tokens of experts": lambda v: [torch.where(v.x == e)[0] for e in range(4)],
    "coalesced": lambda v: torch.sparse_coo_tensor(torch.stack([v.x[0], v.x[1]]), v.w[:7], (6, 6)).coalesce().indices(),
}
ONLY_FLOAT = {
    "division": lambda v: v.x / v.z,
    "isnan": lambda v: v.o.isnan(),
    "isinf": lambda v: v.o.isinf(),
    "isfinite": lambda v: v.o.isfinite(),
    "all finite": lambda v: torch.isfinite(v.x).all(),
    "nan_to_num": lambda v: v.o.nan_to_num(),
    "max with nan": lambda v: v.o.max(),
    "argmax with nan": lambda v: v.o.argmax(),
    "sort with nan": lambda v: v.o.sort()[0],
    "floor": lambda v: v.h.floor(),
    "ceil": lambda v: v.h.ceil(),
    "round": lambda v: v.h.round(),
    "trunc": lambda v: v.h.trunc(),
    "relu": lambda v: v.h.relu(),
    "exceeds": lambda v: v.h[v.h > 0],
    "fmax": lambda v: torch.fmax(v.x, v.y),
    "histc": lambda v: torch.histc(v.x.float(), 4, 0, 4),
    "allclose": lambda v: torch.tensor(torch.allclose(v.x, v.x)),
}
# Sums and transcendental functions: close, not equal.
CLOSE = {
    "mean": lambda v: v.x.mean(),
    "mean of rows": lambda v: v.x.mean(-1),
    "std": lambda v: v.h.std(),
    "var of rows": lambda v: v.h.var(-1),
    "norm": lambda v: v.h.norm(),
    "norm of rows": lambda v: torch.linalg.vector_norm(v.h, dim=-1),
    "norm one": lambda v: torch.linalg.vector_norm(v.h, 1),
    "norm inf": lambda v: torch.linalg.vector_norm(v.h, float("inf")),
    "sum of fractions": lambda v: v.h.sum(),
    "sqrt": lambda v: v.x.sqrt(),
    "exp": lambda v: v.h.exp(),
    "log": lambda v: v.z.log(),
    "log2": lambda v: v.z.log2(),
    "log1p": lambda v: v.z.log1p(),
    "rsqrt": lambda v: v.z.rsqrt(),
    "reciprocal": lambda v: v.z.reciprocal(),
    "power": lambda v: v.z**1.5,
    "powers": lambda v: v.z**v.y,
    "of a base": lambda v: 2**v.h,
    "sigmoid": lambda v: v.h.sigmoid(),
    "tanh": lambda v: v.h.tanh(),
    "sin": lambda v: v.h.sin(),
    "cos": lambda v: v.h.cos(),
    "division by scalar": lambda v: v.x / 3,
    "float floor division": lambda v: v.h // 2,
    "float remainder": lambda v: v.h % 3,
    "addcmul": lambda v: torch.addcmul(v.h, v.x, v.y, value=0.5),
    "addcdiv": lambda v: torch.addcdiv(v.h, v.x, v.z, value=0.5),
    "lerp": lambda v: torch.lerp(v.x, v.y, 0.25),
    "linspace": lambda v: torch.linspace(0, 1, 7, dtype=v.x.dtype, device=v.x.device),
    "arange by fraction": lambda v: torch.arange(0, 1, 0.125, dtype=v.x.dtype, device=v.x.device),
    "cumsum of fractions": lambda v: v.h.cumsum(-1),
    "softmax": lambda v: v.h.softmax(-1),
    "logsumexp": lambda v: v.h.logsumexp(-1),
    "mse": lambda v: F.mse_loss(v.x, v.y),
    "scaled": lambda v: v.h * 0.3,
}
# Random numbers differ from those of the host; what must hold of them is the same.
RANDOM = {
    "permutation": lambda v: torch.randperm(50, device=v.x.device).sort()[0],
    "long permutation": lambda v: torch.randperm(40000, device=v.x.device).sort()[0],
    "whole numbers": lambda v: within(torch.randint(3, 9, (50,), device=v.x.device), 3, 8),
    "of a wide range": lambda v: within(torch.randint(0, 2**40, (50,), device=v.x.device), 0, 2**40),
    "any number": lambda v: within(torch.empty(50, dtype=torch.long, device=v.x.device).random_(), 0, 2**63 - 1),
    "uniform": lambda v: within(torch.rand(1000, device=v.x.device), 0, 1),
    "uniform doubles": lambda v: within(torch.rand(100, dtype=torch.double, device=v.x.device), 0, 1),
    "uniform halves": lambda v: within(torch.rand(100, dtype=torch.half, device=v.x.device), 0, 1),
    "between": lambda v: within(torch.empty(100, device=v.x.device).uniform_(2, 3), 2, 3),
    "mean of uniform": lambda v: within(torch.rand(10000, device=v.x.device).mean(), 0.47, 0.53),
    "normal": lambda v: within(torch.randn(1000, device=v.x.device), -7, 7),
    "deviation of normal": lambda v: within(torch.randn(10000, device=v.x.device).std(), 0.95, 1.05),
    "mean of normal": lambda v: within(torch.empty(10000, device=v.x.device).normal_(3, 0.1).mean(), 2.99, 3.01),
    "coins": lambda v: within(torch.empty(1000, device=v.x.device).bernoulli_(0.3).sum(), 200, 400),
    "coins of a tensor": lambda v: torch.bernoulli(v.b.float()),
    "exponential": lambda v: within(torch.empty(100, device=v.x.device).exponential_(), 1e-9, 100),
    "geometric": lambda v: within(torch.empty(100, device=v.x.device).geometric_(0.5), 1, 60),
    "multinomial": lambda v: torch.multinomial(v.w + 1, 20).sort()[0].diff() > 0,
    "multinomial once": lambda v: within(torch.multinomial(v.w + 1, 1), 0, 34),
    "multinomial again": lambda v: within(torch.multinomial(v.w + 1, 50, replacement=True), 0, 34),
    "only possible one": lambda v: torch.multinomial(torch.eye(6, device=v.x.device), 9, replacement=True),
    "categorical": lambda v: within(torch.distributions.Categorical(logits=v.w.view(5, 7)).sample(), 0, 6),
    "normal distribution": lambda v: within(torch.distributions.Normal(v.w, v.w + 1).sample(), -99, 99),
}
# Kernels over lists of tensors.
LISTS = {
    "add scalar to list": lambda v: torch._foreach_add([v.x, v.r], 1),
    "multiply list": lambda v: torch._foreach_mul([v.x, v.r], 3),
    "add lists": lambda v: torch._foreach_add([v.x, v.r], [v.y, v.r], alpha=2),
    "divide lists": lambda v: torch._foreach_div([v.x, v.r], [v.z, v.r + 1]),
    "multiply by tensor": lambda v: torch._foreach_mul([v.x, v.r], v.r[1]),
    "sqrt of list": lambda v: torch._foreach_sqrt([v.x * v.x, v.z[0] * v.z[0]]),
    "zero list": lambda v: listed(torch._foreach_zero_, [v.x.clone(), v.r.clone()]),
    "copy list": lambda v: listed(torch._foreach_copy_, [v.x.clone(), v.r.clone()], [v.y, v.c.flatten()[:1]]),
    "counters": lambda v: listed(torch._foreach_add_, [v.x[0, 0].clone() for _ in range(200)], 1),
}


def within(tensor, low, high):
    return (tensor >= low) & (tensor <= high)


def listed(change, tensors, *arguments):
    change(tensors, *arguments)
    return tensors


# Known values that a kernel overwrites in place.
IN_PLACE = {
    "every second column": lambda v: changed(v.x, lambda x: x[:, ::2].add_(1)),
    "some columns": lambda v: changed(v.x, lambda x: x[:, 1:3].mul_(2)),
    "one column": lambda v: changed(v.x, lambda x: x[:, 1].fill_(5)),
    "copied columns": lambda v: changed(v.x, lambda x: x[:, ::2].copy_(v.y[:, ::2])),
    "mask": lambda v: changed(v.x, lambda x: x.masked_fill_(x > 2, 0)),
    "scattered": lambda v: changed(v.r, lambda r: r.scatter_(0, v.i, 9)),
    "filled rows": lambda v: changed(v.x, lambda x: x.index_fill_(0, v.i, 9)),
    "added rows": lambda v: changed(v.x, lambda x: x.index_add_(0, v.i, v.y[:3])),
    "assigned rows": lambda v: changed(v.x, lambda x: x.__setitem__(v.i, 7)),
    "clamped": lambda v: changed(v.x, lambda x: x.clamp_(2, 4)),
    "running sum": lambda v: changed(v.s[0], lambda s: torch.cumsum(s, 0, out=s)),
    "listed": lambda v: changed(v.x, lambda x: torch._foreach_add_([x], 1)),
    "product": lambda v: changed(v.x, lambda x: torch.mm(v.x, v.x.t()[:, :5].contiguous(), out=x[:, :5])),
    "zeroed": lambda v: changed(v.x, lambda x: x.zero_()),
    "turned": lambda v: changed(v.x, lambda x: x.copy_(x.flip(0))),
}


def changed(tensor, change):
    tensor = tensor.clone()
    change(tensor)
    return tensor


def put(tensor, where, value):
    tensor = tensor.clone()
    tensor[where] = value
    return tensor


def inputs(dtype):
    def numbers(low, high, *shape):
        return torch.randint(low, high, shape).to(dtype)

    v = types.SimpleNamespace()
    low = 0 if dtype == torch.uint8 else -4
    v.x, v.y = numbers(0, 6, 5, 7), numbers(0, 6, 5, 7)
    v.r, v.c, v.s = numbers(0, 5, 7), numbers(0, 6, 5, 1), numbers(low, 5, 6, 9)
    v.z, v.h = numbers(1, 5, 5, 7), numbers(low, 9, 5, 7) / 4 if dtype.is_floating_point else numbers(low, 9, 5, 7)
    v.b = torch.randint(0, 2, (5, 7)).bool()
    v.k = torch.randint(0, 6, (5, 7)).int()
    v.i, v.n = torch.randperm(5)[:3], torch.randint(0, 4, (7,))
    v.g, v.p = torch.randint(0, 7, (5, 7)), torch.stack([torch.randperm(7) for _ in range(5)])
    v.distinct = torch.randperm(40).to(dtype)
    v.many = torch.randint(0, 100, (6000,)).to(dtype)
    v.modal = torch.cat([numbers(0, 6, 4, 3), torch.full((4, 5), 3).to(dtype)], 1)
    v.w, v.table = torch.randint(0, 9, (35,)).float(), torch.randint(0, 99, (12, 6)).float()
    if dtype.is_floating_point:
        v.o = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0, -2.5]).to(dtype)
    return v


def on_device(v):
    return types.SimpleNamespace(**{name: tensor.cuda() for name, tensor in vars(v).items()})


def same(host, device, tolerance):
    if host.dtype != device.dtype or host.shape != device.shape:
        return False
    if tolerance:
        return torch.allclose(host.double(), device.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    return torch.equal(host.isnan(), device.isnan()) and torch.equal(host[~host.isnan()], device[~device.isnan()])


# Bits of a type's fraction decide how close is close.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5, torch.float64: 1e-5}


def main() -> None:
    groups = [(ANY, (*WHOLE, *FLOAT), False), (ONLY_WHOLE, WHOLE, False), (ONLY_INDICES, (torch.int64,), False)]
    groups += [(ONLY_FLOAT, FLOAT, False), (CLOSE, FLOAT, True), (IN_PLACE, (torch.int64, torch.float32), False)]
    groups += [(RANDOM, (torch.float32,), False), (LISTS, (torch.float32, torch.float64, torch.bfloat16), False)]
    line = 1000  # Beyond the lines of this file.
    for cases, dtypes, close in groups:
        for dtype in dtypes:
            v = inputs(dtype)
            d = on_device(v)
            for name, case in cases.items():
                if len(sys.argv) > 2 and name not in sys.argv[2:]:
                    continue
                line += 1
                # The lambda reads on its own lines what it sizes tensors by.
                lines = [line, *{at for _, _, at in case.__code__.co_lines() if at}]
                what = {"what": f"{name} {dtype}", "line": line, "lines": lines}
                try:
                    host = case(v)
                except (RuntimeError, NotImplementedError):
                    continue  # The host does not have it for this type.
                try:
                    scope = {"case": case, "d": d}
                    code = "\n" * (line - 1) + (
                        "out = case(d); out = [out] if hasattr(out, 'cpu') else out; got = [t.cpu() for t in out]"
                    )
                    exec(compile(code, __file__, "exec"), scope)
                    host = [host] if hasattr(host, "cpu") else host
                    what["same"] = len(host) == len(scope["got"]) and all(
                        same(a, b, TOLERANCE.get(a.dtype, 0) if close else 0) for a, b in zip(host, scope["got"])
                    )
                except Exception as error:
                    if isinstance(error, NotImplementedError) or "not implemented for" in str(error):
                        continue  # Nor does the device.
                    what["same"] = f"{type(error).__name__}: {error}"[:200]
                print(json.dumps(what))


if __name__ == "__main__":
    main()
