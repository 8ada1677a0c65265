"""CUDA graphs as scripts use them; each function's result is printed, and test_machinery.py says what it must be."""

import torch
from report import case, error_of

MIB = 1 << 20
DEVICE = torch.device("cuda")


@case
def constants_are_written_at_each_replay():
    x, graph = torch.zeros(4, device=DEVICE), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.fill_(3)
    captured = x.tolist()
    graph.replay()
    replayed = x.tolist()
    x.zero_()
    graph.replay()
    return [captured, replayed, x.tolist()]


@case
def pinned_memory_is_read_and_written_at_each_replay():
    source, result = torch.arange(4.0).pin_memory(), torch.zeros(4).pin_memory()
    x, graph = torch.zeros(4, device=DEVICE), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.copy_(source, non_blocking=True)
        result.copy_(x, non_blocking=True)
    source.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    return result.tolist()


@case
def whole_training_steps_are_captured():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    data, target = torch.randn(16, 64, device=DEVICE), torch.zeros(16, dtype=torch.int64, device=DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(data), target).backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        data.copy_(torch.randn(16, 64))
        graph.replay()
    return torch.cuda.memory_allocated() - before


@case
def modules_are_graphed():
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.1)).to(DEVICE)
    example = torch.randn(8, 64, device=DEVICE, requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(module, (example,))
    for _ in range(2):
        graphed(torch.randn(8, 64, device=DEVICE, requires_grad=True)).sum().backward()
    return [list(parameter.grad.shape) for parameter in module.parameters()]


def _captured(work):
    x = torch.zeros(4, device=DEVICE)

    def capture():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            work(x)

    return capture


def _forks(x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.add_(1)


def _forks_and_joins(x):
    _forks(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.add_(1)
    torch.cuda.current_stream().wait_stream(side)


def _queries(_):
    event = torch.cuda.Event()
    event.record()
    event.query()


@case
def what_is_illegal_while_capturing_raises():
    works = {
        "item": lambda x: x.sum().item(),
        "synchronize": lambda x: (x.add_(1), torch.cuda.synchronize()),
        "stream_synchronize": lambda x: (x.add_(1), torch.cuda.current_stream().synchronize()),
        "nonzero": lambda x: x.nonzero(),
        "query": _queries,
        "unjoined": _forks,
    }
    return {name: error_of(_captured(work)) for name, work in works.items()}


@case
def the_device_goes_on_after_a_failed_capture():
    return torch.ones(2, device=DEVICE).tolist()


@case
def streams_that_join_are_part_of_the_graph():
    x, side = torch.zeros(4, device=DEVICE), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.fill_(5)
        torch.cuda.current_stream().wait_stream(side)
    graph.replay()
    return x.tolist()


@case
def a_stream_knows_that_it_captures():
    seen, graph = [torch.cuda.is_current_stream_capturing()], torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        seen.append(torch.cuda.is_current_stream_capturing())
        torch.zeros(3, device=DEVICE)
    return [*seen, torch.cuda.is_current_stream_capturing()]


@case
def private_pools_keep_their_memory_until_their_graphs_end():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    inputs, pool, graphs = torch.zeros(4 * MIB, device=DEVICE), torch.cuda.graph_pool_handle(), []
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            product = inputs * 2
            result = product + 1
            del product
        graphs.append((graph, result))
    held = torch.cuda.memory_reserved() - before
    del inputs, graph, result
    torch.cuda.empty_cache()
    kept = torch.cuda.memory_reserved() - before
    graphs.clear()
    torch.cuda.empty_cache()
    return [held // MIB, kept // MIB, (torch.cuda.memory_reserved() - before) // MIB]


@case
def random_numbers_are_captured():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        numbers = torch.rand(4, device=DEVICE)
    graph.replay()
    return list(numbers.shape)
