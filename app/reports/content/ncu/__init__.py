"""Reports on what Nsight Compute measured: configurations, sweeps and the diff of two."""
