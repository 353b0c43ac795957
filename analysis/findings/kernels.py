"""Single kernels: what bounds them, occupancy, grids, caches, and what they could gain at most."""
