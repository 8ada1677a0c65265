"""Small programs as people write them, and what they leave: parameters, gradients, buffers, random state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

import real_torch  # noqa: F401 - before torch
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader

STEPS = 3


class Block(nn.Module):
    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        return x + self.dropout(self.down(F.gelu(self.up(x))))


class Net(nn.Module):
    """Blocks between an embedding and a head, like a language model's."""

    def __init__(self, dropout: float = 0.0, tied: bool = False, frozen: str = "") -> None:
        super().__init__()
        words, width = 11, 8
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=not tied)
        if tied:
            self.head.weight = self.embedding.weight
        if frozen:
            self.get_submodule(frozen).requires_grad_(False)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class LossInside(Net):
    """A model that computes its loss itself, as those of Hugging Face do."""

    def forward(self, tokens: Any, labels: Any = None) -> Any:
        logits = super().forward(tokens)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


class Convolutions(nn.Module):
    def __init__(self, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), norm(8), nn.ReLU()),
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), norm(8), nn.ReLU()),
        )
        self.head = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(x).mean((2, 3)))


class Recurrent(nn.Module):
    """The recurrence changes the results of its own matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.inner = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, inputs: Any) -> Any:
        return self.head(self.inner(self.embedding(inputs))[0])


class InPlace(nn.Module):
    """The result of a matrix product goes through `parts`, which may change it in place."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 8), *parts)
        self.head = nn.Linear(8, 11)

    def forward(self, inputs: Any) -> Any:
        return self.head(self.inner(inputs))


@dataclass
class State:
    """What a run leaves."""

    parameters: Dict[str, Any]
    gradients: Dict[str, Any]
    buffers: Dict[str, Any]
    random: Any
    extra: Dict[str, Any] = field(default_factory=dict)


def tokens(rows: int, length: int = 6, words: int = 11, ignored: bool = False) -> List[Tuple[Any, Any]]:
    generator = torch.Generator().manual_seed(1)
    data = torch.randint(0, words, (rows, length + 1), generator=generator)
    inputs, labels = data[:, :-1].clone(), data[:, 1:].clone()
    if ignored:
        for row in range(rows):
            labels[row, length - row % length :] = -100
    return list(zip(inputs, labels))


def images(rows: int) -> List[Tuple[Any, int]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(3, 6, 6, generator=generator), row % 4) for row in range(rows)]


def cross_entropy(logits: Any, labels: Any) -> Any:
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


@dataclass
class Program:
    """One training run."""

    model: Callable[[], nn.Module] = Net
    data: Callable[[], List[Any]] = lambda: tokens(STEPS * 8)
    loss: Callable[[Any, Any], Any] = cross_entropy
    optimizer: Callable[[Any], Any] = lambda parameters: torch.optim.AdamW(parameters, lr=0.01)
    batch: int = 8
    clip: Optional[float] = None
    scaled: bool = False
    scheduled: bool = False
    # Gradients are cleared after the step, as some do, and not before the backward pass.
    clear_last: bool = False
    epochs: int = 1
    body: Optional[Callable[..., None]] = None

    def run(self, plan: Callable[[nn.Module, Any], Any]) -> State:
        """Trains; `plan` is called when model and optimizer exist."""
        torch.manual_seed(0)
        model = self.model()
        optimizer = self.optimizer(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5) if self.scheduled else None
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=self.scaled)
        applied = plan(model, optimizer)
        try:
            loader = DataLoader(self.data(), batch_size=self.batch)  # type: ignore[arg-type]
            for _ in range(self.epochs):
                for inputs, labels in loader:
                    if self.body is not None:
                        self.body(model, optimizer, inputs, labels)
                        continue
                    if not self.clear_last:
                        optimizer.zero_grad()
                    loss = self.loss(model(inputs), labels)
                    scaler.scale(loss).backward()
                    if self.clip is not None:
                        scaler.unscale_(optimizer)
                        clip_grad_norm_(model.parameters(), self.clip)
                    gradients = {name: entry.grad for name, entry in model.named_parameters()}
                    scaler.step(optimizer)
                    scaler.update()
                    if scheduler is not None:
                        scheduler.step()
                    if self.clear_last:
                        optimizer.zero_grad()
            if self.body is not None:
                gradients = {name: entry.grad for name, entry in model.named_parameters()}
        finally:
            if applied is not None:
                applied.undo()
        return State(
            parameters={name: entry.detach().clone() for name, entry in model.named_parameters()},
            gradients={name: entry.clone() for name, entry in gradients.items() if entry is not None},
            buffers={name: entry.clone() for name, entry in model.named_buffers()},
            random=torch.get_rng_state(),
        )
