"""Training whose whole process was measured on a real GPU: prints its peaks as a line of JSON.

A summary of the layers runs the model once on a small batch before training, as in the measurement; then come an epoch
and, for images, an evaluation. The epoch is short, which changes nothing: all batches but the last have one shape.
"""

from __future__ import annotations

import argparse
import json

import torch
from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "swish": nn.SiLU}


def images(arguments: argparse.Namespace):
    """A convolutional network of torchvision or timm, its input and the number of its classes."""
    if arguments.model == "xception":
        import timm

        model = timm.create_model("xception", num_classes=1000)
    else:
        import torchvision

        # Without pretrained weights Inception would scale its input differently, and start with a slow initialization.
        more = {"aux_logits": False, "init_weights": False} if arguments.model == "inception_v3" else {}
        model = getattr(torchvision.models, arguments.model)(**more)
    return model, (3, arguments.size, arguments.size), 1000


def perceptron(arguments: argparse.Namespace):
    """Linear layers whose widths follow one of three rules."""
    width, classes = arguments.size, arguments.classes
    layers: list[nn.Module] = []

    def layer(out: int) -> int:
        layers.append(nn.Linear(width, out))
        if arguments.batch_norm:
            layers.append(nn.BatchNorm1d(out))
        layers.append(ACTIVATIONS[arguments.activation]())
        if arguments.dropout:
            layers.append(nn.Dropout(0.2))
        return out

    narrower = (width - classes) // arguments.depth
    for _ in range(arguments.depth + (arguments.widths == "bottleneck")):
        if arguments.widths == "uniform":
            width = layer(width)
        elif arguments.widths == "gradual":
            width = layer(max(width - narrower, classes))
        else:
            width = layer(max(width // 2, classes))
    layers.append(nn.Linear(width, classes))
    if arguments.softmax:
        layers.append(nn.Softmax(dim=1))
    return nn.Sequential(*layers), (arguments.size,), classes


class Encoder(nn.Module):
    """Post-norm encoder layers over learned positions, averaged and classified."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__()
        width = arguments.width
        self.embedding = nn.Embedding(arguments.vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(1, arguments.size, width))
        layer = nn.TransformerEncoderLayer(width, arguments.heads, arguments.hidden, 0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, arguments.depth)
        self.head = nn.Linear(width, arguments.classes)

    def forward(self, ids):
        return self.head(self.layers(self.embedding(ids) + self.positions).mean(dim=1))


def batch_of(arguments: argparse.Namespace, shape: tuple[int, ...], classes: int, rows: int):
    if arguments.kind == "encoder":
        inputs = torch.randint(arguments.vocabulary, (rows, *shape))
    else:
        inputs = torch.zeros(rows, *shape)
    return inputs, torch.randint(max(classes, 2), (rows,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("images", "perceptron", "encoder"))
    parser.add_argument("--model")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="pixels of a side, features or tokens")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--widths", choices=("uniform", "gradual", "bottleneck"))
    parser.add_argument("--activation", choices=ACTIVATIONS, default="relu")
    parser.add_argument("--batch-norm", action="store_true")
    parser.add_argument("--dropout", action="store_true")
    parser.add_argument("--softmax", action="store_true")
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--heads", type=int)
    parser.add_argument("--hidden", type=int)
    arguments = parser.parse_args()

    if arguments.kind == "encoder":
        model, shape, classes = Encoder(arguments), (arguments.size,), arguments.classes
    else:
        model, shape, classes = {"images": images, "perceptron": perceptron}[arguments.kind](arguments)
    model.cuda()
    rows = arguments.batch if arguments.kind == "encoder" else 2
    model(batch_of(arguments, shape, classes, rows)[0].cuda())
    is_binary = classes == 1
    loss_of = nn.BCEWithLogitsLoss() if is_binary else nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(4):
        inputs, labels = (part.cuda() for part in batch_of(arguments, shape, classes, arguments.batch))
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = loss_of(outputs, labels.view(-1, 1).float() if is_binary else labels)
        loss.backward()
        optimizer.step()
        loss.item()
    if arguments.kind == "images":
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                inputs, labels = (part.cuda() for part in batch_of(arguments, shape, classes, arguments.batch))
                outputs = model(inputs)
                loss_of(outputs, labels).item()
    print(
        json.dumps(
            {
                "max_memory_allocated": torch.cuda.max_memory_allocated(),
                "max_memory_reserved": torch.cuda.max_memory_reserved(),
            }
        )
    )


if __name__ == "__main__":
    main()
