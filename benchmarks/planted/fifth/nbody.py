"""Long-term orbits of a star cluster: symplectic leapfrog, in double precision because energy must not drift."""
import torch

from common import DEV, compiled, drive, seed, size

BODIES, SUBSTEPS, DT, SOFT = size(8192, 32), size(48, 2), 1e-4, 1e-3


def pull(places, masses):
    """Acceleration of every body by all others; places is three rows."""
    dx, dy, dz = (p[None, :] - p[:, None] for p in places.unbind(0))
    near = (dx * dx + dy * dy + dz * dz + SOFT).rsqrt()
    weight = masses[None, :] * near * near * near
    return torch.stack([(weight * dx).sum(1), (weight * dy).sum(1), (weight * dz).sum(1)])


pull = compiled(pull)


class Cluster:
    def __init__(self, n):
        self.places = torch.randn(3, n, dtype=torch.float64, device=DEV)
        self.speeds = torch.randn(3, n, dtype=torch.float64, device=DEV) * 0.3
        self.masses = torch.rand(n, dtype=torch.float64, device=DEV) / n
        self.force = pull(self.places, self.masses)

    def leap(self):
        self.speeds += 0.5 * DT * self.force
        self.places += DT * self.speeds
        self.force = pull(self.places, self.masses)
        self.speeds += 0.5 * DT * self.force


class Recorder:
    """Keeps the centre of mass of each output time, on the device, in a ring."""

    def __init__(self, length=1024):
        self.ring = torch.zeros(length, 3, dtype=torch.float64, device=DEV)
        self.n = 0

    def note(self, cluster):
        row = (cluster.places * cluster.masses).sum(1)
        self.ring[self.n % len(self.ring)] = row
        self.n += 1
        return row


seed(22)
with torch.no_grad():
    cluster, recorder = Cluster(BODIES), Recorder()


@torch.no_grad()
def step():
    for _ in range(SUBSTEPS):
        cluster.leap()
    return recorder.note(cluster)


if __name__ == "__main__":
    drive("nbody", step)
