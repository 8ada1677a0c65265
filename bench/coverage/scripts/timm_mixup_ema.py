"""A timm network trained as timm's own script does: mixup, EMA, channels last, a cosine schedule, validation."""

import argparse

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, NativeScaler

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet18")
parser.add_argument("--size", type=int, default=96)
args = parser.parse_args()

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
extra = {"img_size": args.size} if "vit" in args.model or "swin" in args.model else {}
model = timm.create_model(args.model, pretrained=False, num_classes=100, **extra).to(device)
model = model.to(memory_format=torch.channels_last)
ema = ModelEmaV3(model, decay=0.999)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
scheduler = CosineLRScheduler(optimizer, t_initial=2)
mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=100)
scaler = NativeScaler() if device.type == "cuda" else None
criterion = SoftTargetCrossEntropy()

for epoch in range(2):
    model.train()
    for _ in range(2):
        images = torch.randn(8, 3, args.size, args.size).to(device, memory_format=torch.channels_last)
        images, target = mixup(images, torch.randint(0, 100, (8,)).to(device))
        with torch.autocast(device.type, torch.float16 if scaler else torch.bfloat16):
            loss = criterion(model(images), target)
        optimizer.zero_grad()
        if scaler:
            scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        ema.update(model)
        print(loss.item())
    scheduler.step(epoch)
    ema.module.eval()
    with torch.no_grad():
        print(ema.module(images).topk(5).indices.shape)
