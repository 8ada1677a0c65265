"""Sparse matrices: each program is run once, and tells how it ended and what it returned."""

import json
import sys

import torch
from torch.sparse import SparseSemiStructuredTensor, to_sparse_semi_structured

CUDA = "cuda"
torch.manual_seed(0)


def matrix(*sizes, kind=torch.float32):
    return torch.randn(sizes, device=CUDA, dtype=kind)


INDICES = torch.tensor([[0, 0, 1, 3, 3, 5], [1, 3, 2, 0, 5, 3]])
COO = torch.sparse_coo_tensor(INDICES, torch.arange(1.0, 7.0), (6, 6)).coalesce().to(CUDA)
CSR = torch.sparse_csr_tensor(
    torch.tensor([0, 2, 3, 3, 5, 5, 6]), torch.tensor([1, 3, 2, 0, 5, 3]), torch.arange(1.0, 7.0), (6, 6)
).to(CUDA)
TRIANGULAR = torch.eye(6).to_sparse_csr().to(CUDA)
BLOCKS = torch.eye(8).to_sparse_bsr((2, 2)).to(CUDA)
DENSE = matrix(6, 4)


def train_csr():
    weight = torch.nn.Parameter(CSR.clone())
    (weight @ DENSE).sum().backward()
    assert weight.grad is not None


def train_coo():
    weight = COO.clone().requires_grad_()
    torch.sparse.mm(weight, DENSE).sum().backward()
    assert weight.grad is not None


def embedding():
    table = torch.nn.Embedding(100, 8, sparse=True).to(CUDA)
    table(torch.tensor([1, 2, 2], device=CUDA)).sum().backward()
    torch.optim.SparseAdam(table.parameters()).step()


def semi_structured(backend, kind=torch.half):
    SparseSemiStructuredTensor._FORCE_CUTLASS = backend == "cutlass"
    mask = torch.tensor([0, 0, 1, 1], device=CUDA).tile((128, 32)).bool()
    weight = torch.zeros(128, 128, device=CUDA, dtype=kind).masked_fill(mask, 1)
    sparse = to_sparse_semi_structured(weight)
    linear = torch.nn.Linear(128, 128, device=CUDA, dtype=kind)
    linear.weight = torch.nn.Parameter(sparse, requires_grad=False)
    with torch.no_grad():
        return list(linear(matrix(64, 128, kind=kind)).shape)


PROGRAMS = {
    "sparse by dense": lambda: list(torch.sparse.mm(COO, DENSE).shape),
    "compressed by dense": lambda: list((CSR @ DENSE).shape),
    "compressed by vector": lambda: list((CSR @ DENSE[:, 0]).shape),
    "columns by dense": lambda: list((CSR.to_sparse_csc() @ DENSE).shape),
    "double": lambda: list((CSR.double() @ DENSE.double()).shape),
    "half": lambda: list((CSR.half() @ DENSE.half()).shape),
    "sparse by sparse": lambda: torch.sparse.mm(COO, COO)._nnz(),
    "compressed by compressed": lambda: (CSR @ CSR)._nnz(),
    "sum of compressed": lambda: torch.add(CSR, CSR)._nnz(),
    "sampled": lambda: torch.sparse.sampled_addmm(CSR, matrix(6, 4), matrix(4, 6))._nnz(),
    "triangular vectors": lambda: list(torch.triangular_solve(DENSE[:, :1], TRIANGULAR).solution.shape),
    "triangular": lambda: list(torch.triangular_solve(DENSE, TRIANGULAR).solution.shape),
    "blocks by dense": lambda: list((BLOCKS @ matrix(8, 4)).shape),
    "blocks by vector": lambda: list((BLOCKS @ matrix(8)).shape),
    "triangular blocks": lambda: list(torch.triangular_solve(matrix(8, 4), BLOCKS).solution.shape),
    "to dense and back": lambda: [list(CSR.to_dense().shape), COO.to_sparse_csr()._nnz()],
    "compressed training": train_csr,
    "sparse training": train_coo,
    "sparse embedding": embedding,
    "semi-structured, cuSPARSELt": lambda: semi_structured("cusparselt"),
    "semi-structured, CUTLASS": lambda: semi_structured("cutlass"),
    "semi-structured, bfloat16": lambda: semi_structured("cusparselt", torch.bfloat16),
    "sparse softmax": lambda: torch.sparse.softmax(COO, 1)._nnz(),
    "sum of sparse": lambda: list(torch.sparse.sum(COO, 0).shape),
}


def main() -> None:
    for name, program in PROGRAMS.items():
        result, error = None, None
        try:
            result = program()
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        print(json.dumps({"program": name, "error": error, "result": result}), file=sys.stderr)


main()
