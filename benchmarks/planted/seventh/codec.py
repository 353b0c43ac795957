"""Trains a neural codec for stereo music on packed one-second clips."""
import numpy as np
import torch
from torch.nn import functional as F

from codeclib.clips import Archive, Feeder, pack
from codeclib.net import Codec
from common import DEV, bf16, drive, seed, size

RATE = size(48000, 960)
BATCH = size(40, 2)
CLIPS = size(192, 4)
WIDTH, DIM = size(24, 4), size(128, 8)


def music(n):
    """Some clips of decaying tones under noise."""
    rng = np.random.default_rng(3)
    t = np.arange(RATE, dtype=np.float32) / 48000
    noise = rng.standard_normal(4 * RATE).astype(np.float32) * 0.02
    clips = []
    for _ in range(n):
        wave = np.zeros((2, RATE), np.float32)
        for pitch in rng.uniform(60, 2000, 3):
            wave += rng.uniform(0.05, 0.2, (2, 1)).astype(np.float32) * np.sin(6.2832 * pitch * t) * np.exp(-3 * t)
        at = rng.integers(0, 2 * RATE)
        wave += noise[at: at + 2 * RATE].reshape(2, RATE)
        clips.append(pack((wave * 20000).clip(-32768, 32767).astype(np.int16)))
    return clips


def spectral_gap(a, b):
    """Differences of log spectra at two resolutions, of both channels."""
    total = 0.0
    for n in (size(512, 64), size(2048, 128)):
        window = torch.hann_window(n, device=a.device)
        sa, sb = (torch.stft(x.flatten(0, 1), n, n // 4, window=window, return_complex=True).abs() for x in (a, b))
        total = total + (torch.log(sa + 1e-3) - torch.log(sb + 1e-3)).abs().mean()
    return total


class Training:
    def __init__(self):
        self.model = Codec(2, WIDTH, DIM).to(DEV)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        self.feeder = Feeder(Archive(music(CLIPS), 2), BATCH, RATE)

    def step(self):
        wave = self.feeder.next()
        with bf16():
            out, commitment = self.model(wave)
        out = out.float()
        loss = F.l1_loss(out, wave) + 0.5 * spectral_gap(out, wave) + commitment
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    seed()
    drive("codec", Training().step)


if __name__ == "__main__":
    main()
