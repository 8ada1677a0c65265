"""What cuDNN does for networks: each program is run once, and tells how it ended and what its peak was."""

import json
import sys

import torch
import torch.nn.functional as F
from torch import nn

CUDA = "cuda"
BF16 = torch.bfloat16


def matrix(*sizes, kind=torch.float32):
    return torch.randn(sizes, device=CUDA, dtype=kind)


def train(module, *inputs):
    inputs = [given.requires_grad_() for given in inputs]
    output = module.to(CUDA, inputs[0].dtype)(*inputs)
    (output[0] if isinstance(output, tuple) else output).float().sum().backward()


def convolve(layout=torch.contiguous_format, benchmark=False, kind=torch.half, count=8):
    torch.backends.cudnn.benchmark = benchmark
    images = matrix(count, 64, 32, 32, kind=kind).contiguous(memory_format=layout)
    with torch.no_grad():
        module = nn.Conv2d(64, 64, 3, padding=1, bias=False, device=CUDA, dtype=kind).to(memory_format=layout)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        module(images)
    torch.backends.cudnn.benchmark = False
    return torch.cuda.max_memory_allocated() - before


def recur(kind, **settings):
    module = kind(16, 32, 2, **settings).to(CUDA)
    packed = nn.utils.rnn.pack_padded_sequence(matrix(10, 4, 16), torch.tensor([10, 7, 3, 1]))
    module(packed)
    train(module, matrix(10, 4, 16))
    module.half().eval()(matrix(10, 4, 16, kind=torch.half))


def ctc():
    # Short labels of 32 bits, all times of equal length: what cuDNN's loss is taken for.
    scores = matrix(50, 4, 20).log_softmax(2).requires_grad_()
    labels = torch.randint(1, 20, (40,), dtype=torch.int, device=CUDA)
    lengths, label_lengths = (torch.full((4,), length, dtype=torch.int, device=CUDA) for length in (50, 10))
    F.ctc_loss(scores, labels, lengths, label_lengths).backward()


def attend(heads=(4, 4), length=(256, 256), size=(64, 64), kind=BF16, grad=True, **settings):
    query = matrix(2, heads[0], length[0], size[0], kind=kind).requires_grad_(grad)
    key = matrix(2, heads[1], length[1], size[0], kind=kind).requires_grad_(grad)
    value = matrix(2, heads[1], length[1], size[1], kind=kind).requires_grad_(grad)
    output = F.scaled_dot_product_attention(query, key, value, **settings)
    if grad:
        output.sum().backward()
    return list(output.shape)


def forced(backend, **settings):
    with nn.attention.sdpa_kernel(backend):
        return attend(**settings)


CUDNN = nn.attention.SDPBackend.CUDNN_ATTENTION


def spatial_transformer():
    theta = matrix(2, 2, 3).requires_grad_()
    F.grid_sample(matrix(2, 3, 8, 8), F.affine_grid(theta, [2, 3, 8, 8], align_corners=False)).sum().backward()


PROGRAMS = {
    "convolution": convolve,
    "convolution, channels last": lambda: convolve(torch.channels_last),
    "convolution, benchmark": lambda: convolve(benchmark=True, count=4),
    "convolution, single precision": lambda: convolve(kind=torch.float32),
    "1-D": lambda: train(nn.Conv1d(4, 8, 3, stride=2, dilation=2), matrix(2, 4, 50)),
    "2-D": lambda: train(nn.Conv2d(4, 8, 3, padding="same"), matrix(2, 4, 9, 9)),
    "3-D": lambda: train(nn.Conv3d(4, 8, 3), matrix(2, 4, 9, 9, 9)),
    "transposed": lambda: [
        train(nn.ConvTranspose1d(4, 8, 3), matrix(2, 4, 9)),
        train(nn.ConvTranspose2d(4, 8, 3, stride=2, output_padding=1), matrix(2, 4, 9, 9)),
        train(nn.ConvTranspose3d(4, 8, 3), matrix(2, 4, 5, 5, 5)),
    ],
    "groups": lambda: train(nn.Conv2d(8, 8, 3, groups=4), matrix(2, 8, 9, 9)),
    "depthwise": lambda: train(nn.Conv2d(8, 16, 3, groups=8), matrix(2, 8, 9, 9)),
    "bfloat16": lambda: train(nn.Conv2d(8, 16, 3), matrix(2, 8, 9, 9, kind=BF16)),
    "double": lambda: train(nn.Conv2d(8, 16, 3), matrix(2, 8, 9, 9, kind=torch.double)),
    "convolution and activation": lambda: torch.cudnn_convolution_relu(
        matrix(1, 4, 8, 8), matrix(8, 4, 3, 3), matrix(8), [1, 1], [0, 0], [1, 1], 1
    ),
    "batch norm": lambda: train(nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), matrix(2, 4, 9, 9)),
    "batch norm, channels last": lambda: train(
        nn.BatchNorm2d(8), matrix(2, 8, 9, 9, kind=torch.half).contiguous(memory_format=torch.channels_last)
    ),
    "other norms": lambda: [
        train(nn.LayerNorm(8), matrix(2, 8)),
        train(nn.RMSNorm(8), matrix(2, 8)),
        train(nn.GroupNorm(2, 8), matrix(2, 8, 4)),
        train(nn.InstanceNorm2d(8, affine=True), matrix(2, 8, 4, 4)),
    ],
    "LSTM": lambda: recur(nn.LSTM),
    "LSTM, projected": lambda: recur(nn.LSTM, proj_size=8, bidirectional=True),
    "GRU": lambda: recur(nn.GRU, dropout=0.5, bidirectional=True),
    "RNN": lambda: recur(nn.RNN, nonlinearity="relu", bias=False),
    "CTC": ctc,
    "pooling": lambda: [train(nn.MaxPool2d(2), matrix(1, 2, 8, 8)), train(nn.AdaptiveAvgPool2d(3), matrix(1, 2, 8, 8))],
    "spatial transformer": spatial_transformer,
    "attention": attend,
    "attention, causal": lambda: attend(is_causal=True),
    "attention, dropout": lambda: attend(dropout_p=0.1),
    "attention, no gradient": lambda: attend(grad=False),
    "attention, grouped": lambda: attend(heads=(8, 2), enable_gqa=True),
    "attention, other lengths": lambda: attend(length=(100, 300)),
    "attention, large heads": lambda: attend(size=(128, 128)),
    "attention, masked": lambda: attend(attn_mask=matrix(2, 1, 256, 256, kind=BF16)),
    "attention, boolean mask": lambda: attend(attn_mask=torch.ones(256, 256, dtype=torch.bool, device=CUDA)),
    "cuDNN's attention": lambda: forced(CUDNN),
    "cuDNN's attention, causal": lambda: forced(CUDNN, is_causal=True),
    "cuDNN's attention, half": lambda: forced(CUDNN, kind=torch.half),
    # PyTorch hands cuDNN sixteenths only.
    "cuDNN's attention, dropout": lambda: forced(CUDNN, dropout_p=0.125),
    "cuDNN's attention, masked": lambda: forced(CUDNN, attn_mask=matrix(2, 1, 256, 256, kind=BF16)),
    "cuDNN's attention, no gradient": lambda: forced(CUDNN, grad=False),
    "cuDNN's attention, grouped": lambda: forced(CUDNN, heads=(8, 2), enable_gqa=True),
    "cuDNN's attention, other lengths": lambda: forced(CUDNN, length=(128, 256)),
    "cuDNN's attention, values of another size": lambda: forced(CUDNN, size=(64, 32)),
    "cuDNN's attention, large heads": lambda: forced(CUDNN, size=(128, 128)),
    "multi-head attention": lambda: train(
        nn.TransformerEncoderLayer(64, 4, batch_first=True), matrix(2, 64, 64, kind=torch.half)
    ),
}


def main() -> None:
    for name, program in PROGRAMS.items():
        result, error = None, None
        try:
            result = program()
            torch.cuda.synchronize()
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        print(
            json.dumps({"program": name, "error": error, "result": result if isinstance(result, int) else None}),
            file=sys.stderr,
        )


main()
