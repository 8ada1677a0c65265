"""A graph network on batches of graphs: a batch is one large graph, which cannot be cut along its first dimension."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--small", action="store_true")
options = parser.parse_args()
LAYERS, WIDTH, NODES, DEGREE = (6, 16, 12, 3) if options.small else (6, 128, 1024, 8)
FEATURES, CLASSES = 32, 10


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.message = nn.Linear(2 * WIDTH, WIDTH)
        self.update = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x, edges):
        y = self.norm(x)
        messages = F.relu(self.message(torch.cat((y[edges[0]], y[edges[1]]), dim=-1)))
        gathered = torch.zeros_like(y).index_add(0, edges[1], messages)
        return x + self.update(torch.cat((y, gathered), dim=-1))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(FEATURES, WIDTH)
        self.convolutions = nn.ModuleList(Convolution() for _ in range(LAYERS))
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))

    def forward(self, x, edges, graph, n_graphs):
        x = self.encode(x)
        for convolution in self.convolutions:
            x = convolution(x, edges)
        pooled = torch.zeros(n_graphs, WIDTH, device=x.device, dtype=x.dtype).index_add(0, graph, x)
        return self.head(pooled / NODES)


class Graphs(Dataset):
    def __len__(self):
        return 4 * options.batch

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        edges = torch.randint(NODES, (2, NODES * DEGREE), generator=generator)
        return torch.randn(NODES, FEATURES, generator=generator), edges, index % CLASSES


def collate(graphs):
    edges = torch.cat([graph[1] + NODES * number for number, graph in enumerate(graphs)], dim=1)
    return {
        "x": torch.cat([graph[0] for graph in graphs]),
        "edges": edges,
        "graph": torch.arange(len(graphs)).repeat_interleave(NODES),
        "y": torch.tensor([graph[2] for graph in graphs]),
    }


torch.manual_seed(0)
loader = DataLoader(Graphs(), batch_size=options.batch, collate_fn=collate)
model = Network().to(options.device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step, batch in enumerate(loader):
    batch = {name: tensor.to(options.device) for name, tensor in batch.items()}
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch["x"], batch["edges"], batch["graph"], len(batch["y"])), batch["y"])
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
