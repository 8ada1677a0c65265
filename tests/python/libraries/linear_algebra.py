"""Factorizations and transforms: each is run once, and tells how it ended and what its peak was above what it found."""

import json
import sys

import torch

L = torch.linalg
CUDA = "cuda"


def matrix(*sizes, kind=torch.float32):
    return torch.randn(sizes, device=CUDA, dtype=kind)


A, B, LARGE, BATCH = matrix(6, 6), matrix(6, 3), matrix(600, 600), matrix(5, 6, 6)
S = A @ A.T
COMPLEX = matrix(4, 4, kind=torch.cfloat)
SIGNAL = matrix(1 << 20, kind=torch.cfloat)


def backward(function, of=A):
    function(of.clone().requires_grad_()).sum().backward()


def module(made):
    made(matrix(2, 8)).sum().backward()


def linear():
    return torch.nn.Linear(8, 8).to(CUDA)


orthogonal = torch.nn.utils.parametrizations.orthogonal

PROGRAMS = {
    "svd": lambda: [L.svd(A), L.svd(BATCH), L.svd(LARGE), L.svd(COMPLEX), L.svd(A.double())],
    "svd gesvd": lambda: L.svd(A, driver="gesvd"),
    "svd gesvda": lambda: L.svd(A, driver="gesvda"),
    "svd gesvdj": lambda: L.svd(A, driver="gesvdj"),
    "svd tall": lambda: L.svd(matrix(3000, 20), full_matrices=False),
    "svdvals": lambda: L.svdvals(LARGE),
    "eigh": lambda: [L.eigh(S), L.eigh(BATCH), L.eigh(LARGE), L.eigh(matrix(4, 4, kind=torch.cdouble)), L.eigvalsh(S)],
    "eig": lambda: [L.eig(A), L.eigvals(A), L.eig(COMPLEX)],
    "qr": lambda: [L.qr(A), L.qr(BATCH), L.qr(LARGE), torch.geqrf(A), torch.ormqr(A, B[:, 0], A)],
    "householder": lambda: L.householder_product(A, B[:, 0]),
    "cholesky": lambda: [L.cholesky(S), L.cholesky(BATCH), L.cholesky_ex(S), torch.cholesky_inverse(L.cholesky(S))],
    "cholesky solve": lambda: [torch.cholesky_solve(B, S), torch.cholesky_solve(matrix(5, 6, 2), BATCH)],
    "lu": lambda: [L.lu(A), L.lu_factor(BATCH), L.lu_factor(LARGE), L.lu_solve(*L.lu_factor(A), B)],
    "solve": lambda: [L.solve(A, B), L.solve(BATCH, matrix(5, 6, 2)), L.solve(LARGE, LARGE)],
    "inverse": lambda: [L.inv(A), L.inv(BATCH), L.inv(LARGE), L.pinv(A), L.pinv(S, hermitian=True)],
    "least squares": lambda: L.lstsq(matrix(8, 3), matrix(8, 2)),
    "ldl": lambda: [L.ldl_factor(S), L.ldl_solve(*L.ldl_factor(S), B)],
    "determinant": lambda: [torch.det(A), torch.det(BATCH), L.slogdet(A)],
    "rank, condition, norms": lambda: [L.matrix_rank(A), L.cond(A), L.cond(A, 1), L.matrix_norm(A, "nuc")],
    "powers": lambda: [torch.matrix_exp(A), L.matrix_power(A, -3)],
    "triangular": lambda: [
        L.solve_triangular(A, B, upper=True),
        L.solve_triangular(BATCH, matrix(5, 6, 2), upper=True),
    ],
    "low rank": lambda: [torch.svd_lowrank(LARGE, q=4), torch.pca_lowrank(LARGE, q=4)],
    "svd backward": lambda: backward(L.svdvals),
    "eigh backward": lambda: backward(L.eigvalsh),
    "inverse backward": lambda: backward(L.inv),
    "cholesky backward": lambda: backward(L.cholesky),
    "qr backward": lambda: backward(lambda x: L.qr(x)[1]),
    "determinant backward": lambda: backward(torch.det),
    "orthogonal initialization": lambda: torch.nn.init.orthogonal_(torch.empty(30, 20, device=CUDA)),
    "orthogonal parametrization": lambda: module(orthogonal(linear())),
    "orthogonal by Cayley": lambda: module(orthogonal(linear(), orthogonal_map="cayley")),
    "spectral norm": lambda: module(torch.nn.utils.parametrizations.spectral_norm(linear())),
    "fft": lambda: torch.fft.fft(SIGNAL),
    "fft of an odd length": lambda: torch.fft.fft(SIGNAL[:1009]),
    "real fft": lambda: [torch.fft.rfft(matrix(4, 1000)), torch.fft.irfft(COMPLEX), torch.fft.rfft2(matrix(3, 8, 8))],
    "fft of three dimensions": lambda: [torch.fft.fftn(matrix(8, 8, 8)), torch.fft.ifftn(matrix(2, 8, 8, 8))],
    "half precision fft": lambda: torch.fft.fft(matrix(4, 64, kind=torch.half)),
    "stft": lambda: torch.istft(
        torch.stft(matrix(1, 4000), 400, window=torch.hann_window(400, device=CUDA), return_complex=True),
        400,
        window=torch.ones(400, device=CUDA),
    ),
    "fft backward": lambda: backward(lambda x: torch.fft.fft(x).abs()),
}


def main() -> None:
    for name, program in PROGRAMS.items():
        torch.cuda.reset_peak_memory_stats()
        before, error = torch.cuda.memory_allocated(), None
        try:
            program()
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        above = torch.cuda.max_memory_allocated() - before
        print(json.dumps({"program": name, "error": error, "above": above}), file=sys.stderr)


main()
