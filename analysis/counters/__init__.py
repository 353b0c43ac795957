"""Hardware counters of Nsight Compute."""
