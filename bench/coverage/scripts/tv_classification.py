"""Image classification with torchvision: transforms v2, channels last, SGD, best checkpoint."""

import sys

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

name = sys.argv[1] if len(sys.argv) > 1 else "mobilenet_v3_small"
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
transform = v2.Compose(
    [
        v2.RandomResizedCrop(96),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)


class Pictures(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        image = torch.randint(0, 256, (3, 128, 128), dtype=torch.uint8, generator=torch.Generator().manual_seed(i))
        return transform(image), i % 10


model = torchvision.models.get_model(name, num_classes=10).to(device, memory_format=torch.channels_last)
loader = DataLoader(Pictures(), batch_size=8, shuffle=True, num_workers=2, pin_memory=True, drop_last=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=2 * len(loader))
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
best = 0.0
for epoch in range(2):
    model.train()
    for images, target in loader:
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        loss = criterion(model(images), target.to(device, non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    correct = 0
    with torch.inference_mode():
        for images, target in loader:
            correct += (model(images.to(device)).argmax(1).cpu() == target).sum().item()
    print(epoch, correct / 32)
    if correct / 32 >= best:
        best = correct / 32
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "best.pth")
