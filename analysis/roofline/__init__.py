"""How near kernels come to the peaks of their GPU: work from counters or shapes, peaks by GPU."""
