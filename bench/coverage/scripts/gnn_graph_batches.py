"""Graph classification with GraphSAGE, pooling and batches of graphs of different sizes."""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import SAGEConv, TopKPooling, global_mean_pool

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
graphs = []
for i in range(64):
    n = 10 + i % 20
    graphs.append(Data(x=torch.randn(n, 32), edge_index=torch.randint(0, n, (2, 4 * n)), y=torch.tensor([i % 2])))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv(32, 64), SAGEConv(64, 64)
        self.pool = TopKPooling(64, ratio=0.5)
        self.head = torch.nn.Linear(64, 2)

    def forward(self, x, edge_index, batch):
        x = self.first(x, edge_index).relu()
        x, edge_index, _, batch, _, _ = self.pool(x, edge_index, None, batch)
        x = self.second(x, edge_index).relu()
        return self.head(global_mean_pool(x, batch))


model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for batch in DataLoader(graphs, batch_size=16):
        batch = batch.to(device)
        loss = F.cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
