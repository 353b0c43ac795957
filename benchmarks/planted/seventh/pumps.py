"""Watches pumps: scores every second of a recording by how badly an autoencoder restores the window that ends there."""
import torch
from torch import nn

from common import DEV, FIX, TINY, drive, pinned, seed, size

SENSORS = size(32, 3)
WINDOW = size(256, 16)
CHUNK = size(8192, 32)
SECONDS = size(400_000, 400)
DTYPE = torch.float32 if TINY else torch.bfloat16


class Restorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(SENSORS, width, 8, 4, 2), nn.ReLU(inplace=True),
            nn.Conv1d(width, 2 * width, 8, 4, 2), nn.ReLU(inplace=True),
            nn.Conv1d(2 * width, width // 2, 1))
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(width // 2, 2 * width, 8, 4, 2), nn.ReLU(inplace=True),
            nn.ConvTranspose1d(2 * width, SENSORS, 8, 4, 2))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Recording:
    """A long recording on the host: (sensors, seconds)."""

    def __init__(self):
        t = torch.arange(SECONDS) / 60
        phase = torch.rand(SENSORS, 1) * 6
        self.values = torch.sin(t + phase) + 0.1 * torch.randn(SENSORS, SECONDS)
        self.mean = self.values.mean(1, keepdim=True).to(DEV)
        self.scale = self.values.std(1, keepdim=True).to(DEV)
        self.staging = pinned(torch.empty(SENSORS, CHUNK + WINDOW - 1) if FIX
                              else torch.empty(CHUNK, SENSORS, WINDOW))
        self.sent = None if TINY else torch.cuda.Event()

    def windows(self, start):
        """The windows that begin at start, start + 1, ...: (chunk, sensors, window), scaled."""
        part = self.values[:, start: start + CHUNK + WINDOW - 1]
        if self.sent is not None:
            self.sent.synchronize()
        if FIX:
            self.staging.copy_(part)
        else:
            self.staging.copy_(part.unfold(1, WINDOW, 1).transpose(0, 1))
        x = self.staging.to(DEV, non_blocking=True)
        if self.sent is not None:
            self.sent.record()
        if FIX:
            x = x.unfold(1, WINDOW, 1).transpose(0, 1)
        return ((x - self.mean) / self.scale).to(DTYPE)


class Watch:
    def __init__(self, model, recording):
        self.model, self.recording = model, recording
        self.start = 0
        self.level = torch.zeros((), device=DEV)
        self.alarms = torch.zeros((), device=DEV)

    @torch.inference_mode()
    def step(self):
        x = self.recording.windows(self.start)
        error = (self.model(x) - x).float().square().mean((1, 2))
        self.level = torch.maximum(0.99 * self.level, error.mean())
        self.alarms += (error > 3 * self.level).sum()
        self.start += CHUNK
        if self.start + CHUNK + WINDOW > SECONDS:
            self.start = 0
        return error


def main():
    seed()
    model = Restorer(size(256, 8)).to(DEV, DTYPE).eval()
    watch = Watch(model, Recording())
    drive("pumps", watch.step)
    print("alarms", int(watch.alarms))


if __name__ == "__main__":
    main()
