"""What operators and layers allocate, forward and backward."""

from __future__ import annotations

import torch
from model import KIB, MIB, Model
from program import Program
from torch import nn
from torch.nn import functional as F


def normal(*shape: int, dtype: torch.dtype = torch.float32, requires_grad: bool = False) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype, requires_grad=requires_grad)


class InPlaceAllocatesNothing(Program):
    @staticmethod
    def real(mark):
        x = normal(1024, 1024)
        x.mul_(2).add_(1).relu_()
        mark()
        y = x * 2
        mark()
        y = y * 2  # The new one is there before the old one goes.
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        m.mark()
        y = m.malloc(4 * MIB)
        m.mark()
        m.malloc(4 * MIB)
        m.free(y)
        m.mark()


class ViewsAreFreeAndCopiesAreNot(Program):
    @staticmethod
    def real(mark):
        x = normal(512, 2048)
        kept = [x.view(-1), x.t(), x[3:9], x.expand(4, 512, 2048), x.reshape(2048, 512)]
        mark()
        kept.append(x.t().contiguous())
        mark()
        kept.append(x[:, :1024].reshape(-1))
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        m.mark()
        m.malloc(4 * MIB)
        m.mark()
        m.malloc(2 * MIB)
        m.mark()


class CastsAndConcatenations(Program):
    @staticmethod
    def real(mark):
        x = normal(1000, 1000)
        kept = [x.bfloat16(), x.double(), x > 0]
        mark()
        kept.append(torch.cat([x, x, x]))
        kept.append(torch.stack([x, x]))
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4_000_000)
        m.malloc(2_000_000)
        m.malloc(8_000_000)
        m.malloc(1_000_000)
        m.mark()
        m.malloc(12_000_000)
        m.malloc(8_000_000)
        m.mark()


class AProductTakesAWorkspace(Program):
    @staticmethod
    def real(mark):
        a, b = normal(512, 512), normal(512, 512)
        mark()
        for _ in range(3):
            c = a @ b
            mark()
        del c

    @staticmethod
    def rules(m: Model):
        m.malloc(MIB)
        m.malloc(MIB)
        m.mark()
        before = None
        for _ in range(3):
            c = m.malloc(MIB)
            m.cublas()
            if before:
                m.free(before)
            before = c
            m.mark()


class ProductsInHalfPrecisionAndBatches(Program):
    @staticmethod
    def real(mark):
        a, b = normal(8, 256, 256, dtype=torch.bfloat16), normal(8, 256, 256, dtype=torch.bfloat16)
        c = torch.bmm(a, b)
        mark()
        d = torch.einsum("bij,bjk->bik", a, b)
        mark()
        del c, d

    @staticmethod
    def rules(m: Model):
        m.malloc(MIB)
        m.malloc(MIB)
        m.malloc(MIB)
        m.cublas()
        m.mark()
        m.malloc(MIB)
        m.cublas()
        m.mark()


class BackwardOfAProduct(Program):
    @staticmethod
    def real(mark):
        x, w = normal(1024, 768), normal(768, 512, requires_grad=True)
        grad = normal(1024, 512)
        y = x @ w
        mark()
        y.backward(grad)
        mark()
        del y
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(1024 * 768 * 4)
        w = m.malloc(768 * 512 * 4)
        m.malloc(1024 * 512 * 4)
        y = m.malloc(1024 * 512 * 4)
        m.cublas()
        m.mark()
        m.malloc(w.requested)
        m.cublas(thread="backward")
        m.mark()
        m.free(y)
        m.mark()


class ALinearLayerWithBiasForward(Program):
    @staticmethod
    def real(mark):
        layer = nn.Linear(1024, 2048, device="cuda")
        x = normal(512, 1024)
        mark()
        y = layer(x)
        mark()
        del y

    @staticmethod
    def rules(m: Model):
        m.malloc(8 * MIB)
        m.malloc(8 * KIB)
        m.malloc(2 * MIB)
        m.mark()
        m.malloc(4 * MIB)
        m.cublaslt()
        m.mark()


class ActivationsAreKeptForBackward(Program):
    @staticmethod
    def real(mark):
        x = normal(1024, 1024, requires_grad=True)
        y = x.sigmoid()
        z = F.gelu(y)
        del y
        mark()
        z.backward(torch.empty_like(z))
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        y = m.malloc(4 * MIB)
        z = m.malloc(4 * MIB)
        m.mark()
        given = m.malloc(4 * MIB)
        inner = m.malloc(4 * MIB)  # The gradient of y, which lives until that of x is there.
        m.malloc(4 * MIB)
        m.free(inner, y)
        m.free(given)
        del z
        m.mark()


class DropoutKeepsAMaskOfBytes(Program):
    @staticmethod
    def real(mark):
        x = normal(2048, 1024, requires_grad=True)
        y = F.dropout(x, 0.5)
        mark()
        del y
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(8 * MIB)
        y, mask = m.malloc(8 * MIB), m.malloc(2 * MIB)
        m.mark()
        m.free(y, mask)
        m.mark()


class LayerNormKeepsMeanAndDeviation(Program):
    @staticmethod
    def real(mark):
        layer = nn.LayerNorm(1024, device="cuda")
        x = normal(4096, 1024)
        mark()
        y = layer(x)
        mark()
        del y
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * KIB)
        m.malloc(4 * KIB)
        m.malloc(16 * MIB)
        m.mark()
        kept = [m.malloc(16 * MIB), m.malloc(16 * KIB), m.malloc(16 * KIB)]
        m.mark()
        m.free(*kept)
        m.mark()


class AnEmbeddingHasADenseGradient(Program):
    @staticmethod
    def real(mark):
        layer = nn.Embedding(10_000, 256, device="cuda")
        index = torch.randint(0, 10_000, (64,)).cuda()
        mark()
        y = layer(index)
        mark()
        del y, index
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(10_000 * 256 * 4)
        index = m.malloc(512)
        m.mark()
        y = m.malloc(64 * 256 * 4)
        m.mark()
        m.free(y, index)
        m.mark()


class NothingIsKeptWithoutGradients(Program):
    @staticmethod
    def real(mark):
        x = normal(1024, 1024, requires_grad=True)
        with torch.no_grad():
            for _ in range(5):
                y = x.relu()
                for _ in range(4):
                    y = y.sigmoid()
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        y = None
        for _ in range(5):
            for _ in range(5):
                new = m.malloc(4 * MIB)
                if y:
                    m.free(y)
                y = new
        m.mark()


class CheckpointingComputesAgain(Program):
    depth = 6

    @staticmethod
    def real(mark):
        from torch.utils.checkpoint import checkpoint

        def part(value):
            for _ in range(CheckpointingComputesAgain.depth):
                value = value.sigmoid()
            return value

        x = normal(1024, 1024, requires_grad=True)
        y = checkpoint(part, x, use_reentrant=False, preserve_rng_state=False)
        mark()
        y.backward(torch.empty_like(y))
        mark()

    @staticmethod
    def rules(m: Model):
        depth = CheckpointingComputesAgain.depth
        m.malloc(4 * MIB)
        y = None
        for _ in range(depth):
            new = m.malloc(4 * MIB)
            if y:
                m.free(y)
            y = new
        m.mark()
        given = m.malloc(4 * MIB)
        # All outputs are there again; the last one is not needed once it was saved.
        again = [m.malloc(4 * MIB) for _ in range(depth)]
        grad = given
        for output in reversed(again):
            new = m.malloc(4 * MIB)
            m.free(output)
            if grad is not given:
                m.free(grad)
            grad = new
        m.free(given)
        m.mark()


class AutocastKeepsCopiesOfWeights(Program):
    @staticmethod
    def real(mark):
        layer = nn.Linear(1024, 1024, bias=False, device="cuda")
        x = normal(1024, 1024)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = layer(x)
            mark()
            z = layer(x)
            mark()
        mark()
        del y, z
        mark()

    @staticmethod
    def rules(m: Model):
        m.malloc(4 * MIB)
        m.malloc(4 * MIB)
        x_half, w_half = m.malloc(2 * MIB), m.malloc(2 * MIB)
        y = m.malloc(2 * MIB)
        m.cublas()
        m.mark()
        again = m.malloc(2 * MIB)
        z = m.malloc(2 * MIB)
        m.cublas()
        m.mark()
        # Of the weight nothing is needed for its own gradient; that of the input nobody asked for.
        m.free(w_half)
        m.mark()
        m.free(y, z, x_half, again)
        m.mark()
