"""Day-ahead forecast of electricity load at many substations with a recurrent encoder and decoder."""
import torch
from torch import nn

from common import DEV, drive, seed, size

torch.set_float32_matmul_precision("high")
SITES, HOURS = size(3000, 8), size(4000, 200)
BATCH, PAST, AHEAD, HIDDEN, LAYERS = size(512, 4), size(336, 12), size(24, 4), size(512, 8), size(3, 1)


class Forecaster(nn.Module):
    def __init__(self, inputs=4):
        super().__init__()
        self.encoder = nn.LSTM(inputs, HIDDEN, LAYERS, batch_first=True)
        self.decoder = nn.LSTM(inputs - 1, HIDDEN, LAYERS, batch_first=True)
        self.head = nn.Linear(HIDDEN, 3)

    def forward(self, past, calendar):
        _, state = self.encoder(past)
        out, _ = self.decoder(calendar, state)
        return self.head(out)


class History:
    """All meters' readings with calendar columns, on the device."""

    def __init__(self):
        hours = torch.arange(HOURS, device=DEV)
        day, week = hours * (6.28319 / 24), hours * (6.28319 / 168)
        self.calendar = torch.stack([day.sin(), day.cos(), week.sin()], 1)
        shape = torch.rand(SITES, 1, device=DEV)
        self.load = shape * day.sin() + 0.3 * week.cos() + 0.1 * torch.randn(SITES, HOURS, device=DEV)
        self.window = torch.arange(PAST + AHEAD, device=DEV)

    def draw(self):
        site = torch.randint(SITES, (BATCH, 1), device=DEV)
        when = torch.randint(HOURS - PAST - AHEAD, (BATCH, 1), device=DEV) + self.window
        load, calendar = self.load[site, when], self.calendar[when]
        past = torch.cat([load[:, :PAST, None], calendar[:, :PAST]], -1)
        return past, calendar[:, PAST:], load[:, PAST:]


def pinball(predicted, actual, levels=(0.1, 0.5, 0.9)):
    total = 0.0
    for i, level in enumerate(levels):
        miss = actual - predicted[..., i]
        total = total + torch.maximum(level * miss, (level - 1) * miss).mean()
    return total


seed(23)
history, model = History(), Forecaster().to(DEV)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)


def step():
    past, calendar, load = history.draw()
    loss = pinball(model(past, calendar), load)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    drive("gridload", step)
