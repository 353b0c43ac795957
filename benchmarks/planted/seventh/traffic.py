"""Forecasts the speed of traffic at thousands of sensors; the graph between them is learned too."""
import torch

from common import DEV, drive, seed, size
from trafficlib.cells import Forecaster

SENSORS = size(4096, 40)
BATCH = size(16, 2)
PAST, AHEAD = size(12, 3), size(12, 3)
HIDDEN = size(32, 4)

torch.set_float32_matmul_precision("high")


class Archive:
    """Speeds and the time of day for some weeks, on the device."""

    def __init__(self, ticks):
        clock = torch.arange(ticks, device=DEV) / 288 * 6.2832
        phase = torch.rand(SENSORS, device=DEV) * 0.5
        speed = 60 - 20 * torch.sin(clock[:, None] + phase).clamp(min=0) ** 2
        self.speed = (speed + 2 * torch.randn_like(speed) - 52) / 10
        self.clock = torch.stack([clock.sin(), clock.cos()], 1)
        self.span = torch.arange(PAST + AHEAD, device=DEV)

    def batch(self):
        start = torch.randint(0, len(self.speed) - PAST - AHEAD, (BATCH,), device=DEV)
        at = start + self.span[:, None]
        speed = self.speed[at].transpose(1, 2)
        clock = self.clock[at[:PAST]][:, None].expand(-1, SENSORS, -1, -1)
        return torch.cat([speed[:PAST, ..., None], clock], 3), speed[PAST:].permute(1, 2, 0)


class Training:
    def __init__(self):
        with torch.device(DEV):
            self.model = Forecaster(SENSORS, 16, 3, HIDDEN, AHEAD)
        self.archive = Archive(size(2000, 60))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=2e-3, fused=True)

    def step(self):
        past, ahead = self.archive.batch()
        loss = (self.model(past) - ahead).abs().mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.opt.step()
        return loss.detach()


def main():
    seed()
    drive("traffic", Training().step)


if __name__ == "__main__":
    main()
