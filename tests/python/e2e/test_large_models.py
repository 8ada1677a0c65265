"""What is too large for this machine is built, moved and loaded all the same."""

from __future__ import annotations

from virtual_run import Program

GIB = 2**30

DECODER = Program(
    """
    import resource, time
    import torch, torch.nn as nn
    begun = time.monotonic()
    WIDTH, LAYERS, INNER, WORDS = 8192, 80, 22016, 32000
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
            self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
            self.down = nn.Linear(INNER, WIDTH, bias=False)
        def forward(self, x):
            y = self.norm_1(x)
            heads = [p(y).unflatten(-1, (64, 128)).transpose(1, 2) for p in (self.q, self.k, self.v)]
            x = x + self.o(nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
            y = self.norm_2(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))
    words = nn.Embedding(WORDS, WIDTH)
    model = nn.Sequential(words, *[Layer() for _ in range(LAYERS)], nn.Linear(WIDTH, WORDS, bias=False))
    model = model.to("cuda", torch.bfloat16)
    parameters = sum(p.numel() for p in model.parameters())
    result(parameters=parameters, allocated=torch.cuda.memory_allocated())
    with torch.no_grad():
        model(torch.zeros(1, 128, dtype=torch.long).cuda())
    result(rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, seconds=time.monotonic() - begun)
    """,
    ["--memory", "192GiB"],
)

LOADED = Program(
    """
    import resource
    import torch
    state = {f"layers.{n}.weight": torch.empty(16384, 16384) for n in range(4)}
    with torch.serialization.skip_data():
        torch.save(state, "weights.pt")
    del state
    result(size=os.path.getsize("weights.pt"))
    def resident():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    before = resident()
    loaded = torch.load("weights.pt", mmap=True, weights_only=True)
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([torch.nn.Linear(16384, 16384, bias=False) for _ in range(4)])
    model.load_state_dict(loaded, assign=True)
    model.cuda()
    direct = {name: tensor.to("cuda") for name, tensor in loaded.items()}
    again = torch.load("weights.pt", mmap=True, map_location="cuda", weights_only=True)
    result(grown=resident() - before, allocated=torch.cuda.memory_allocated())
    """,
    ["--memory", "80GiB", "--full"],
)


def test_sixty_five_billion_parameters() -> None:
    finished = DECODER.result()
    results = finished.results
    parameters = 2 * 32000 * 8192 + 80 * (4 * 8192**2 + 3 * 8192 * 22016 + 2 * 8192)
    assert results["parameters"] == parameters > 65e9
    # Every parameter is a whole number of 512-byte blocks.
    assert results["allocated"] == 2 * parameters
    assert results["rss"] < 2 * GIB
    assert results["seconds"] < 30
    assert (finished.verdict["verdict"], finished.code) == ("fits", 0)
    assert len(finished.assumptions("skipped_init")) == 1


def test_a_mapped_file_is_not_copied() -> None:
    results = LOADED.result().results
    assert results["size"] >= 4 * GIB
    assert results["allocated"] == 3 * 4 * GIB
    assert results["grown"] < GIB // 2
