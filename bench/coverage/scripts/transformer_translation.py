"""nn.Transformer for translation with padding masks, a Noam schedule and greedy decoding to an end token."""

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
pad, begin, end = 0, 1, 2


class Translator(nn.Module):
    def __init__(self, words=2000, width=128):
        super().__init__()
        self.source, self.target = nn.Embedding(words, width, pad), nn.Embedding(words, width, pad)
        self.place = nn.Parameter(torch.zeros(1, 64, width))
        self.core = nn.Transformer(width, 4, 2, 2, 512, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        out = self.core(
            self.source(source) + self.place[:, : source.shape[1]],
            self.target(target) + self.place[:, : target.shape[1]],
            tgt_mask=mask,
            tgt_is_causal=True,
            src_key_padding_mask=source == pad,
            tgt_key_padding_mask=(target == pad).to(mask.dtype) * -1e9,
            memory_key_padding_mask=source == pad,
        )
        return self.head(out)


model = Translator().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98))
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda n: 128**-0.5 * min((n + 1) ** -0.5, (n + 1) * 4000**-1.5)
)
for step in range(4):
    source = torch.randint(3, 2000, (8, 40))
    target = torch.randint(3, 2000, (8, 32))
    source[:4, 30:] = pad
    target[:, 0] = begin
    source, target = source.to(device), target.to(device)
    loss = nn.functional.cross_entropy(
        model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(step, loss.item())
model.eval()
with torch.no_grad():
    words = torch.full((8, 1), begin, device=device)
    for _ in range(30):
        following = model(source, words)[:, -1].argmax(-1, keepdim=True)
        words = torch.cat([words, following], 1)
        if (following == end).all():
            break
print(words.shape)
