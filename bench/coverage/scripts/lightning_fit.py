"""A LightningModule fitted in the precision asked for, with callbacks and a test."""

import sys

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

precision = sys.argv[1] if len(sys.argv) > 1 else "32-true"
rich = "callbacks" in sys.argv


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(1024, 10),
        )

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        logits = self.net(x)
        self.log("val_loss", F.cross_entropy(logits, y))
        self.log("val_acc", (logits.argmax(1) == y).float().mean())

    test_step = validation_step

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


L.seed_everything(0)
images = TensorDataset(torch.randn(48, 3, 32, 32), torch.randint(0, 10, (48,)))
callbacks = [EarlyStopping("val_loss", patience=5), LearningRateMonitor(), ModelCheckpoint(monitor="val_loss")]
if rich:
    callbacks.append(StochasticWeightAveraging(1e-2, swa_epoch_start=1))
trainer = L.Trainer(
    max_epochs=3,
    accelerator="gpu" if torch.cuda.is_available() else "cpu",
    devices=1,
    precision=precision,
    callbacks=callbacks if rich else None,
    accumulate_grad_batches=2 if rich else 1,
    gradient_clip_val=1.0,
    logger=CSVLogger("logs"),
    log_every_n_steps=1,
    enable_progress_bar=False,
)
model = Classifier()
trainer.fit(model, DataLoader(images, 8, shuffle=True), DataLoader(images, 8))
print(trainer.test(model, DataLoader(images, 8), verbose=False))
