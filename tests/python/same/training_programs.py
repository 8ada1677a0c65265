"""What optimizers and training loops keep, and what they hold for a moment."""

from __future__ import annotations

import math

import torch
from model import KIB, MIB, Model
from program import Program
from torch import nn

SHAPES = ((1024, 1024), (1000, 300), (2048,), (7,))
SIZES = [4 * math.prod(shape) for shape in SHAPES]


def parameters() -> list:
    made = [nn.Parameter(torch.randn(shape, device="cuda")) for shape in SHAPES]
    for each in made:
        each.grad = torch.randn_like(each)
    return made


def lists(m: Model, count: int) -> list:
    """As many lists of tensors of the sizes of the parameters, one after the other."""
    return [m.malloc(size) for _ in range(count) for size in SIZES]


def states(m: Model, count: int, *, steps_on_device: bool = False) -> None:
    """State by parameter, as optimizers make it at their first step."""
    for size in SIZES:
        if steps_on_device:
            m.malloc(4)
        for _ in range(count):
            m.malloc(size)


class SgdHasNoState(Program):
    @staticmethod
    def real(mark):
        optimizer = torch.optim.SGD(parameters(), lr=0.1)
        for _ in range(2):
            optimizer.step()
            mark()

    @staticmethod
    def rules(m: Model):
        lists(m, 2)
        m.mark()
        m.mark()


class SgdWithMomentumHasOne(Program):
    @staticmethod
    def real(mark):
        optimizer = torch.optim.SGD(parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            optimizer.step()
            mark()

    @staticmethod
    def rules(m: Model):
        lists(m, 3)
        m.mark()
        m.mark()


class AdamHoldsItsDenominators(Program):
    @staticmethod
    def real(mark):
        optimizer = torch.optim.AdamW(parameters(), lr=0.1)
        for _ in range(2):
            optimizer.step()
            mark()

    @staticmethod
    def rules(m: Model):
        lists(m, 2)
        states(m, 2)
        for _ in range(2):
            m.free(*lists(m, 1))
            m.mark()


class AmsgradHasThree(Program):
    @staticmethod
    def real(mark):
        optimizer = torch.optim.Adam(parameters(), lr=0.1, amsgrad=True)
        for _ in range(2):
            optimizer.step()
            mark()

    @staticmethod
    def rules(m: Model):
        lists(m, 2)
        states(m, 3)
        for _ in range(2):
            m.free(*lists(m, 1))
            m.mark()


class FusedAdamHoldsNothing(Program):
    @staticmethod
    def real(mark):
        optimizer = torch.optim.AdamW(parameters(), lr=0.1, fused=True)
        for _ in range(2):
            optimizer.step()
            mark()

    @staticmethod
    def rules(m: Model):
        lists(m, 2)
        states(m, 2, steps_on_device=True)
        m.mark()
        m.mark()


class RmspropHoldsItsRoots(Program):
    @staticmethod
    def real(mark):
        optimizer = torch.optim.RMSprop(parameters(), lr=0.1)
        for _ in range(2):
            optimizer.step()
            mark()

    @staticmethod
    def rules(m: Model):
        lists(m, 2)
        states(m, 1)
        for _ in range(2):
            m.free(*lists(m, 1))
            m.mark()


class GradientsAreReleasedOrZeroed(Program):
    @staticmethod
    def real(mark):
        optimizer = torch.optim.SGD(parameters(), lr=0.1)
        optimizer.zero_grad(set_to_none=False)
        mark()
        optimizer.zero_grad()
        mark()

    @staticmethod
    def rules(m: Model):
        lists(m, 1)
        grads = lists(m, 1)
        m.mark()
        m.free(*grads)
        m.mark()


class GradientsAccumulateInPlace(Program):
    @staticmethod
    def real(mark):
        w = nn.Parameter(torch.randn(1024, 1024, device="cuda"))
        grad = torch.randn(1024, 1024, device="cuda")
        for _ in range(3):
            (w * 2).backward(grad)
            mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        m.malloc(4 * MIB)
        for step in range(3):
            product = m.malloc(4 * MIB)
            new = m.malloc(4 * MIB)
            if step:
                m.free(new)
            m.free(product)
            m.mark()


class AScalerHasTwoScalars(Program):
    @staticmethod
    def real(mark):
        scaler = torch.amp.GradScaler("cuda")
        loss = torch.ones((), device="cuda")
        mark()
        kept = scaler.scale(loss)
        mark()
        del kept
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4)
        m.mark()
        m.malloc(4)
        m.malloc(4)
        kept = m.malloc(4)
        m.mark()
        m.free(kept)
        m.mark()


class SavedOnTheHostNothingIsKept(Program):
    @staticmethod
    def real(mark):
        x = torch.randn(1024, 1024, device="cuda", requires_grad=True)
        with torch.autograd.graph.save_on_cpu():
            y = x.sigmoid().sigmoid().sigmoid()
        mark()
        del y

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        first = m.malloc(4 * MIB)
        second = m.malloc(4 * MIB)
        m.free(first)
        m.malloc(4 * MIB)
        m.free(second)
        m.mark()


class TwoLayersAndAnOptimizer(Program):
    @staticmethod
    def real(mark):
        first = nn.Linear(512, 2048, bias=False, device="cuda")
        second = nn.Linear(2048, 512, bias=False, device="cuda")
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        x, given = torch.randn(256, 512, device="cuda"), torch.randn(256, 512, device="cuda")
        mark()
        for _ in range(2):
            y = second(first(x).relu_())
            mark()
            y.backward(given)
            mark()
            del y
            optimizer.step()
            optimizer.zero_grad()
            mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        m.malloc(4 * MIB)
        m.malloc(512 * KIB)
        m.malloc(512 * KIB)
        m.mark()
        for _ in range(2):
            hidden = m.malloc(2 * MIB)
            m.cublas()
            y = m.malloc(512 * KIB)
            m.cublas()
            m.mark()
            grads = [m.malloc(4 * MIB)]
            m.cublas(thread="backward")
            grad_hidden = m.malloc(2 * MIB)
            m.cublas(thread="backward")
            grad_relu = m.malloc(2 * MIB)
            m.free(grad_hidden, hidden)
            grads.append(m.malloc(4 * MIB))
            m.cublas(thread="backward")
            m.free(grad_relu)
            m.mark()
            m.free(y)
            m.free(*grads)
            m.mark()


class AGraphKeepsItsPool(Program):
    @staticmethod
    def real(mark):
        x = torch.randn(1024, 1024, device="cuda")
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = (x * 2).sigmoid()
        mark()
        graph.replay()
        mark()
        del y
        torch.cuda.empty_cache()
        mark()
        del graph
        torch.cuda.empty_cache()
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        # Seed and offset of the random numbers of graphs.
        is_eager = m.torch < (2, 14)
        numbers = [m.malloc(8, stream=1), m.malloc(8, stream=1)] if is_eager else []
        product = m.malloc(4 * MIB, stream=1)
        y = m.malloc(4 * MIB, stream=1)
        m.free(product)
        m.mark()
        m.mark()
        m.free(y)
        m.mark()
        m.free(*numbers)
        m.empty_cache()
        m.mark()


class Compiled(Program):
    is_slow = True

    @staticmethod
    def real(mark):
        x = torch.randn(1024, 1024, device="cuda")
        function = torch.compile(lambda value: value.sigmoid() * 2 + 1, backend="aot_eager")
        function(x)
        # Compiling itself allocates for a moment, by the release something else.
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        y = function(x)
        mark()
        del y
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        first = m.malloc(4 * MIB)
        second = m.malloc(4 * MIB)
        m.free(first)
        y = m.malloc(4 * MIB)
        m.free(second)
        m.mark()
        m.free(y)
        m.mark()
