"""How long work takes on the virtual device, as a script measures it and as the verdict says."""

from __future__ import annotations

import pytest
from virtual_run import Program

# The rates are those of `docs/gpus.md`: operations of a multiprocessor in a cycle, of which 70 % are reached.
WORK = Program(
    """
    import torch, torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    properties = torch.cuda.get_device_properties(0)
    cycles = properties.multi_processor_count * 1.98e9

    def check(name, work, operations, per_cycle):
        work()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        result(**{name: start.elapsed_time(end) / (operations / (cycles * per_cycle * 0.7) * 1e3)})

    n = 4096
    for name, dtype, per_cycle in [("double", torch.double, 256), ("single", torch.float, 256),
                                   ("half", torch.half, 4096), ("brain", torch.bfloat16, 4096)]:
        a = torch.randn(n, n, device="cuda", dtype=dtype)
        check(name, lambda: a @ a, 2 * n**3, per_cycle)
    torch.backends.cuda.matmul.allow_tf32 = True
    single = torch.randn(n, n, device="cuda")
    check("rounded", lambda: single @ single, 2 * n**3, 2048)
    linear = torch.nn.Linear(n, n, device="cuda", dtype=torch.bfloat16)
    check("linear", lambda: linear(a), 2 * n**3, 4096)
    batch = torch.randn(16, 1024, 1024, device="cuda", dtype=torch.half)
    check("batch", lambda: batch @ batch, 16 * 2 * 1024**3, 4096)

    heads = torch.randn(8, 16, 4096, 64, device="cuda", dtype=torch.bfloat16)
    whole = 4 * 8 * 16 * 4096**2 * 64
    for backend, rate in [(SDPBackend.FLASH_ATTENTION, 1), (SDPBackend.EFFICIENT_ATTENTION, 1),
                          (SDPBackend.CUDNN_ATTENTION, 2)]:
        with sdpa_kernel(backend):
            attend = lambda causal: F.scaled_dot_product_attention(heads, heads, heads, is_causal=causal)
            check(backend.name, lambda: attend(False), whole, 4096)
            check(backend.name + "_causal", lambda: attend(True), whole / 2 * rate, 4096)

    images = torch.randn(64, 256, 56, 56, device="cuda")
    filters = torch.randn(256, 256, 3, 3, device="cuda")
    check("convolution", lambda: F.conv2d(images, filters, padding=1), 2 * 64 * 256 * 56**2 * 256 * 9, 2048)

    # What is captured takes its time when it is replayed, and none before.
    graph = torch.cuda.CUDAGraph()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    with torch.cuda.graph(graph):
        a @ a
    after.record()
    torch.cuda.synchronize()
    result(captured_ms=before.elapsed_time(after))
    check("replayed", graph.replay, 2 * n**3, 4096)
    """,
    ("--gpu", "h100"),
)
KINDS = """double single half brain rounded linear batch FLASH_ATTENTION FLASH_ATTENTION_causal EFFICIENT_ATTENTION
EFFICIENT_ATTENTION_causal CUDNN_ATTENTION CUDNN_ATTENTION_causal convolution replayed"""

STEPS = Program(
    """
    import torch

    n = 8192
    model = torch.nn.Linear(n, n, bias=False, device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.utils.data.DataLoader(torch.randn(64 * n, 1).expand(-1, n), batch_size=n)
    for batch in data:
        batch = batch[:, :1].to("cuda", torch.bfloat16).expand(n, n).contiguous()
        model(batch).float().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    properties = torch.cuda.get_device_properties(0)
    operations = 4 * n**3  # the input needs no gradient
    result(nanos=operations / (properties.multi_processor_count * 1.98e9 * 4096 * 0.7) * 1e9)
    """,
    ("--gpu", "h100"),
)


@pytest.mark.parametrize("kind", KINDS.split())
def test_work_takes_as_long_as_its_arithmetic(kind):
    assert WORK.result().results[kind] == pytest.approx(1, abs=0.08)


def test_what_is_captured_takes_no_time():
    assert WORK.result().results["captured_ms"] < 0.02


def test_the_verdict_says_how_long_a_step_takes():
    run = STEPS.result()
    time = run.verdict["step_device_ns"]
    products = run.results["nanos"]
    # Beside the products there is what only moves bytes.
    assert products < time["likely"] < 2 * products
    assert time["low"] == pytest.approx(0.7 * time["likely"], rel=1e-6)
    assert time["high"] == 2 * time["likely"]
