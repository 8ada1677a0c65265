"""ResNet-50 with mixed precision and gradient scaling, the way the PyTorch recipes write it."""

import argparse

import torch
import torchvision
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=256)
    arguments = parser.parse_args()

    device = torch.device("cuda")
    model = torchvision.models.resnet50(num_classes=100).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    data = TensorDataset(torch.rand(arguments.images, 3, 224, 224), torch.randint(0, 100, (arguments.images,)))
    loader = DataLoader(data, batch_size=arguments.batch_size, shuffle=True, num_workers=2, pin_memory=True)

    for epoch in range(arguments.epochs):
        model.train()
        for images, targets in loader:
            images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
            targets = targets.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(model(images), targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        correct = 0
        with torch.no_grad():
            for images, targets in loader:
                prediction = model(images.to(device)).argmax(1)
                correct += (prediction == targets.to(device)).sum().item()
        print(f"epoch {epoch}  loss {loss.item():.3f}  correct {correct}/{arguments.images}")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "resnet50.pt")


if __name__ == "__main__":
    main()
