"""A small student that learns from a frozen teacher, with hidden states caught by hooks."""

import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)


def classifier(width, depth):
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    return nn.ModuleDict({"embed": nn.Embedding(2000, width), "body": body, "head": nn.Linear(width, 20)}).to(device)


def run(model, ids):
    hidden = model["body"](model["embed"](ids))
    return hidden, model["head"](hidden.mean(1))


teacher, student = classifier(256, 4).eval(), classifier(128, 2)
bridge = nn.Linear(128, 256).to(device)
caught = {}
teacher["body"].layers[1].register_forward_hook(lambda module, args, out: caught.update(middle=out))
optimizer = torch.optim.AdamW([*student.parameters(), *bridge.parameters()], lr=1e-3)
for step in range(4):
    ids = torch.randint(0, 2000, (16, 64), device=device)
    labels = torch.randint(0, 20, (16,), device=device)
    with torch.no_grad():
        _, wanted = run(teacher, ids)
    hidden, logits = run(student, ids)
    soft = F.kl_div(F.log_softmax(logits / 2, -1), F.softmax(wanted / 2, -1), reduction="batchmean") * 4
    loss = soft + F.cross_entropy(logits, labels) + F.mse_loss(bridge(hidden), caught["middle"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
