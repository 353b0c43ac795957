"""Restores a complex transmission function from diffraction patterns of overlapping spots (alternating projections)."""
import torch
from torch.nn import functional as F

from common import DEV, compiled, drive, seed, size

STEP, OVERLAP = size(64, 4), 4
SPOT = STEP * OVERLAP
GRID = size(80, 5)
N = STEP * (GRID + OVERLAP - 1)


def beam():
    axis = torch.linspace(-1, 1, SPOT, device=DEV)
    r2 = axis[:, None] ** 2 + axis ** 2
    return torch.polar(torch.exp(-4 * r2), 3 * r2)


def cut(plane):
    """All spots of the plane, as a view: (rows, columns, height, width)."""
    return plane.as_strided((GRID, GRID, SPOT, SPOT), (STEP * N, STEP, N, 1))


def add(spots):
    """The spots laid over one another."""
    tiles = spots.view(GRID, GRID, OVERLAP, STEP, OVERLAP, STEP)
    side = GRID + OVERLAP - 1
    out = torch.zeros(side, STEP, side, STEP, dtype=spots.dtype, device=DEV)
    for a in range(OVERLAP):
        for b in range(OVERLAP):
            out[a: a + GRID, :, b: b + GRID] += tiles[:, :, a, :, b].transpose(1, 2)
    return out.view(N, N)


def impose(wave, measured):
    """Puts the measured magnitudes under the phases of the wave (last dimension: real, imaginary)."""
    size_ = wave.square().sum(-1).sqrt()
    gap = (size_ - measured).square().mean()
    return wave * (measured / size_.clamp(min=1e-6))[..., None], gap


class Restoration:
    def __init__(self):
        self.beam = beam()
        self.back = self.beam.conj().resolve_conj()
        self.impose = compiled(impose, dynamic=False)
        blobs = F.interpolate(torch.rand(1, 2, 40, 40, device=DEV), size=(N, N), mode="bicubic")[0]
        truth = torch.polar(0.5 + 0.5 * blobs[0].abs(), 2 * blobs[1])
        self.measured = torch.fft.fft2(cut(truth) * self.beam).abs()
        self.plane = torch.ones(N, N, dtype=torch.complex64, device=DEV)
        power = self.beam.abs().square().expand(GRID, GRID, -1, -1).contiguous()
        self.weight = 1 / (add(power) + 1e-3)

    @torch.inference_mode()
    def step(self):
        wave = torch.fft.fft2(cut(self.plane) * self.beam)
        wave, gap = self.impose(torch.view_as_real(wave), self.measured)
        spots = torch.fft.ifft2(torch.view_as_complex(wave)).mul_(self.back)
        self.plane = add(spots) * self.weight
        return gap


def main():
    seed()
    drive("ptycho", Restoration().step)


if __name__ == "__main__":
    main()
