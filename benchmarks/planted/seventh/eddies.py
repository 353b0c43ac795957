"""An ensemble of decaying two-dimensional turbulence: pseudo-spectral vorticity equation, fourth-order Runge-Kutta."""
import math

import torch

from common import DEV, FIX, drive, seed, size

N = size(2048, 32)
MEMBERS = size(8, 2)
DT = size(5e-4, 5e-3)
VISCOSITY = 1e-5


class Plane:
    """Transforms of the doubly periodic plane, and its wave numbers."""

    def __init__(self, n):
        self.n = n
        whole = torch.fft.fftfreq(n, 1.0 / n, device=DEV)
        kx = torch.fft.rfftfreq(n, 1.0 / n, device=DEV) if FIX else whole
        self.kx, self.ky = kx[None, :], whole[:, None]
        self.k2 = self.kx ** 2 + self.ky ** 2
        self.inverse = torch.where(self.k2 > 0, 1 / self.k2.clamp(min=1), torch.zeros_like(self.k2))
        self.keep = ((self.kx.abs() < n / 3) & (self.ky.abs() < n / 3)).float()
        # factors that turn a spectrum of vorticity into those of u, v and its slopes
        self.to_u, self.to_v = 1j * self.ky * self.inverse, -1j * self.kx * self.inverse
        self.to_x, self.to_y = 1j * self.kx.expand_as(self.k2), 1j * self.ky.expand_as(self.k2)

    def forth(self, field):
        return torch.fft.rfft2(field) if FIX else torch.fft.fft2(field)

    def back(self, spectrum):
        if FIX:
            return torch.fft.irfft2(spectrum, s=(self.n, self.n))
        return torch.fft.ifft2(spectrum).real


class Flow:
    def __init__(self, plane, members):
        self.plane = plane
        field = plane.forth(torch.randn(members, plane.n, plane.n, device=DEV))
        band = torch.exp(-((plane.k2.sqrt() - plane.n / 64) / 4) ** 2) * plane.keep
        field = field * band
        rms = plane.back(field).square().mean().sqrt()
        self.spectrum = field * (10 / rms)
        self.decay = torch.exp(-VISCOSITY * plane.k2 * DT / 2)

    def advection(self, w):
        p = self.plane
        flux = p.back(p.to_u * w) * p.back(p.to_x * w)
        flux.addcmul_(p.back(p.to_v * w), p.back(p.to_y * w))
        return p.forth(flux).mul_(-p.keep)

    def step(self):
        """Runge-Kutta with the viscous part integrated exactly."""
        w, e = self.spectrum, self.decay
        a = self.advection(w)
        b = self.advection(e * (w + a * (DT / 2)))
        c = self.advection(e * w + b * (DT / 2))
        d = self.advection(e * (e * w + c * DT))
        self.spectrum = e * e * (w + a * (DT / 6)) + e * (b + c) * (DT / 3) + d * (DT / 6)
        return self.enstrophy()

    def enstrophy(self):
        return self.plane.back(self.spectrum).square().mean()


class Log:
    """Enstrophy of every step, read when the run is over."""

    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)
        if len(self.values) > 10000:
            del self.values[:5000]

    def __str__(self):
        first, last = float(self.values[0]), float(self.values[-1])
        return f"enstrophy {first:.4f} -> {last:.4f}, turn-over time {1 / math.sqrt(last):.3f}"


@torch.inference_mode()
def main():
    seed()
    flow, log = Flow(Plane(N), MEMBERS), Log()

    def step():
        value = flow.step()
        log.add(value)
        return value

    drive("eddies", step)
    print(log)


if __name__ == "__main__":
    main()
