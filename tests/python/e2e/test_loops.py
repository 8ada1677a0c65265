"""Loops over data that end early: what comes after them is reached, and the largest batch is run all the same."""

from __future__ import annotations

from virtual_run import Program

SCRIPT = """
import random, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Texts(Dataset):
    def __init__(self, count):
        self.lengths = [16 + number % 5 * 8 for number in range(count)]
        self.lengths[count - 30] = 2048
    def __len__(self):
        return len(self.lengths)
    def __getitem__(self, number):
        random.random(), torch.rand(1)
        return torch.arange(self.lengths[number]) % 100

def collate(texts):
    return nn.utils.rnn.pad_sequence(texts, batch_first=True)

model = nn.Sequential(nn.Embedding(100, 256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 100)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(Texts(1600), batch_size=16, collate_fn=collate, num_workers=2)
held_out = DataLoader([torch.arange(64) for _ in range(640)], batch_size=16)

def loss_of(tokens):
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())

shapes, scores = [], []
random.seed(1), torch.manual_seed(1)
for epoch in range(3):
    shapes.append([])
    for tokens in loader:
        shapes[-1].append(tokens.shape[1])
        loss_of(tokens.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        scores.append(len([loss_of(tokens.cuda()) for tokens in held_out]))
after = random.random()
held = torch.cuda.memory_allocated()
in_place = DataLoader(Texts(640), batch_size=16, collate_fn=lambda texts: {"tokens": collate(texts)})
for epoch in range(2):
    for batch in in_place:
        batch["tokens"] = batch["tokens"].cuda()
        loss_of(batch["tokens"]).backward()
        optimizer.step()
        optimizer.zero_grad()
    del batch
kept = torch.cuda.memory_allocated() - held
random.seed(1)
torch.save(model.state_dict(), "model.pt")
model.load_state_dict(torch.load("model.pt"))
result(largest=shapes[0][-2], last=shapes[0][-1], epochs=[len(each) for each in shapes], scores=scores,
       same=after == random.random(), length=len(loader), kept=kept)
"""

LOOPS = Program(SCRIPT)


def test_loops_end_early_and_the_script_goes_on() -> None:
    finished = LOOPS.result()
    assert finished.code == 0, finished.err
    found, verdict = finished.results, finished.verdict
    assert found["largest"] == 2048, "the largest batch is run"
    assert found["last"] == 48, "what is held after the loop is of the size that it is without an early end"
    assert found["kept"] == 0, "a batch that was moved in place is let go of with the script's own name of it"
    assert found["length"] == 100 and max(found["epochs"]) < 20, found
    assert max(found["scores"]) < 10, found
    assert found["same"], "random numbers go on as if nothing had been looked at"
    assert verdict["not_reached"] == []
    assert set(verdict["phases"]) >= {"load", "evaluation", "save"}
    kinds = [assumption["kind"] for assumption in verdict["assumptions"]]
    assert "largest_batch_run" in kinds and "loops_cut" in kinds and "rest_not_run" not in kinds
    # 16 x 2048 x 1024 floats, in and out of the GELU, and their gradient.
    assert verdict["peak"]["allocated_bytes"] > 3 * 16 * 2048 * 1024 * 4
