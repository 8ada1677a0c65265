"""GraphSAGE on neighborhoods sampled on the host, a new subgraph each step."""

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import k_hop_subgraph

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
nodes = 5000
edge_index = torch.randint(0, nodes, (2, 30000))
features, labels = torch.randn(nodes, 64), torch.randint(0, 10, (nodes,))
first, second = SAGEConv(64, 128).to(device), SAGEConv(128, 10).to(device)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-3)
for step in range(5):
    seeds = torch.randperm(nodes)[:32]
    subset, edges, mapping, _ = k_hop_subgraph(seeds, 2, edge_index, relabel_nodes=True, num_nodes=nodes)
    x, edges = features[subset].to(device), edges.to(device)
    out = second(first(x, edges).relu(), edges)[mapping.to(device)]
    loss = F.cross_entropy(out, labels[seeds].to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, len(subset), loss.item())
