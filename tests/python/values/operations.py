"""Small work on known values, on the device and on the host; prints one line of JSON an operation."""

import json
import warnings

import torch

warnings.filterwarnings("ignore")
torch.manual_seed(0)

OPERATIONS = {
    "eq scalar": lambda x, y, b: x == 3,
    "ne scalar": lambda x, y, b: x != 3,
    "eq": lambda x, y, b: x == y,
    "ne": lambda x, y, b: x != y,
    "lt scalar": lambda x, y, b: x < 3,
    "ge scalar": lambda x, y, b: x >= 3,
    "gt": lambda x, y, b: x > y,
    "le": lambda x, y, b: x <= y,
    "all": lambda x, y, b: b.all(),
    "any": lambda x, y, b: b.any(),
    "all of numbers": lambda x, y, b: x.all(),
    "any of numbers": lambda x, y, b: x.any(),
    "mask is full": lambda x, y, b: (x >= 0).all(),
    "mask is empty": lambda x, y, b: (x < 0).any(),
    "not": lambda x, y, b: ~b,
    "and": lambda x, y, b: b & (x > y),
    "or": lambda x, y, b: b | (x > y),
    "xor": lambda x, y, b: b ^ (x > y),
    "bool": lambda x, y, b: x.bool(),
    "int": lambda x, y, b: x.int(),
    "long": lambda x, y, b: b.long(),
    "float": lambda x, y, b: x.float(),
    "double": lambda x, y, b: x.double(),
    "byte": lambda x, y, b: x.byte(),
    "max": lambda x, y, b: x.max(),
    "min": lambda x, y, b: x.min(),
    "clone": lambda x, y, b: x.clone(),
    "isnan": lambda x, y, b: torch.isnan(x.float()),
    "zeros": lambda x, y, b: torch.zeros_like(x),
    "ones": lambda x, y, b: torch.ones_like(x),
    "full": lambda x, y, b: torch.full_like(x, 7),
}
WHOLE = {
    "add scalar": lambda x, y, b: x + 5,
    "sub scalar": lambda x, y, b: x - 5,
    "rsub scalar": lambda x, y, b: 5 - x,
    "add": lambda x, y, b: x + y,
    "add alpha": lambda x, y, b: torch.add(x, y, alpha=3),
    "sub": lambda x, y, b: x - y,
    "mul scalar": lambda x, y, b: x * 3,
    "mul": lambda x, y, b: x * y,
    "bitwise and": lambda x, y, b: x & y,
    "bitwise not": lambda x, y, b: ~x,
    "sum": lambda x, y, b: x.sum(),
}


def main() -> None:
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.float32, torch.float64):
        for shape in ((), (1,), (7,), (4, 33), (3, 1, 1030)):
            x = torch.randint(0, 6, shape).to(dtype)
            y = torch.randint(0, 6, shape).to(dtype)
            b = torch.randint(0, 2, shape).bool()
            whole = WHOLE if not dtype.is_floating_point else {}
            for name, operation in {**OPERATIONS, **whole}.items():
                host = operation(x, y, b)
                device = operation(x.cuda(), y.cuda(), b.cuda())
                same = device.dtype == host.dtype and torch.equal(device.cpu(), host)
                print(json.dumps({"what": f"{name} {dtype} {tuple(shape)}", "same": same}))


if __name__ == "__main__":
    main()
