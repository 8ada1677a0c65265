"""A masked autoencoder: patches chosen by a random order, a decoder, the loss on what was hidden."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


def encoder(width, depth):
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


class MAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(8 * 8 * 3, 192)
        self.place = nn.Parameter(torch.zeros(1, 64, 192))
        self.encoder, self.decoder = encoder(192, 4), encoder(96, 2)
        self.bridge, self.head = nn.Linear(192, 96), nn.Linear(96, 8 * 8 * 3)
        self.hidden = nn.Parameter(torch.zeros(1, 1, 96))

    def forward(self, images):
        patches = images.unfold(2, 8, 8).unfold(3, 8, 8).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        order = torch.rand(patches.shape[:2], device=images.device).argsort(1)
        back, keep = order.argsort(1), order[:, :16]
        tokens = self.patch(patches) + self.place
        seen = self.encoder(tokens.gather(1, keep[..., None].expand(-1, -1, 192)))
        full = torch.cat([self.bridge(seen), self.hidden.expand(len(images), 48, -1)], 1)
        full = full.gather(1, back[..., None].expand(-1, -1, 96))
        mask = torch.ones(patches.shape[:2], device=images.device).scatter(1, keep, 0.0)
        error = (self.head(self.decoder(full)) - patches).square().mean(-1)
        return (error * mask).sum() / mask.sum(), error[mask.bool()].shape


model = MAE().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, betas=(0.9, 0.95))
for step in range(4):
    loss, shape = model(torch.randn(8, 3, 64, 64, device=device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), shape)
