"""Node classification on one graph: GCN or GAT, masks for training and test."""

import sys

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv
from torch_geometric.utils import add_self_loops

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
nodes, edges = 1000, 6000
edge_index, _ = add_self_loops(torch.randint(0, nodes, (2, edges)), num_nodes=nodes)
data = Data(x=torch.randn(nodes, 64), edge_index=edge_index, y=torch.randint(0, 7, (nodes,)))
data.train_mask = torch.arange(nodes) < 600
data.test_mask = ~data.train_mask
data = data.to(device)


class Net(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        if kind == "gat":
            self.first, self.second = GATConv(64, 16, heads=4), GATConv(64, 7, heads=1)
        else:
            self.first, self.second = GCNConv(64, 64), GCNConv(64, 7)

    def forward(self, x, edge_index):
        return self.second(F.dropout(F.elu(self.first(x, edge_index)), training=self.training), edge_index)


model = Net(sys.argv[1] if len(sys.argv) > 1 else "gcn").to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(5):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = model(data.x, data.edge_index).argmax(1)
        correct = int((predicted[data.test_mask] == data.y[data.test_mask]).sum())
    print(epoch, loss.item(), correct / int(data.test_mask.sum()))
