"""Two steps of a small model, a second stream, and a request that fails; prints what PyTorch says of its memory."""

import json
import sys

import torch

model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    x = torch.randn(64, 512, device="cuda")
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    other = torch.empty(3_000_000, device="cuda")
used = torch.empty(1000, device="cuda")
used.record_stream(stream)
del used
message = ""
try:
    torch.empty(200 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    message = f"torch.OutOfMemoryError: {error}"
# The releases waited for all streams twice but retried once, and only this waits without a retry; as nothing was
# released by it, it came when no segment was free, which is here at the latest.
torch.cuda.empty_cache()
said = {"oom": message, "stats": torch.cuda.memory_stats(), "summary": torch.cuda.memory_summary()}
sys.stderr.write("\nSAID " + json.dumps(said) + "\n")
