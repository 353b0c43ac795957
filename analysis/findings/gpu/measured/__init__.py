"""Rules on counters of Nsight Compute: memory, and what warps wait for."""
