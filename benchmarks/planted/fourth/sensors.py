"""Classifies windows of sensor readings with a small transformer."""
import torch
from torch import nn

from common import DEV, drive, seed, size
from micro.engine import Engine
from micro.settings import BATCH, MICRO_BATCH

LENGTH = size(256, 16)
DIM = size(384, 16)


class SensorNet(nn.Module):
    def __init__(self, channels=12, classes=20, depth=size(6, 1)):
        super().__init__()
        self.embed = nn.Linear(channels, DIM)
        layer = nn.TransformerEncoderLayer(DIM, size(6, 2), 4 * DIM, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, classes)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)).mean(1))


if __name__ == "__main__":
    seed()
    model = SensorNet().to(DEV)
    engine = Engine(model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True), MICRO_BATCH)
    x = torch.randn(BATCH, LENGTH, 12, device=DEV)
    y = torch.randint(0, 20, (BATCH,), device=DEV)
    drive("sensors", lambda: engine.step(x, y))
