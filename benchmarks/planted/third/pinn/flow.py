"""Residuals of an incompressible flow in three dimensions, at points (x, y, z, t)."""
from derivatives import diff, diffs


class NavierStokes:
    def __init__(self, viscosity=0.01):
        self.viscosity = viscosity

    def momentum(self, points, velocity, component, pressure_slope):
        u = velocity[component]
        u_x, u_y, u_z, u_t = diffs(u, points, (0, 1, 2, 3))
        carried = sum(v * slope for v, slope in zip(velocity, (u_x, u_y, u_z)))
        spread = sum(diff(slope, points, i) for i, slope in enumerate((u_x, u_y, u_z)))
        return u_t + carried + pressure_slope - self.viscosity * spread, (u_x, u_y, u_z)[component]

    def residuals(self, points, outputs):
        *velocity, pressure = outputs.split(1, -1)
        slopes = diffs(pressure, points, (0, 1, 2))
        rows = [self.momentum(points, velocity, i, slopes[i]) for i in range(3)]
        return [row for row, _ in rows] + [sum(own for _, own in rows)]
