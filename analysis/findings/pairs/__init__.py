"""Rules about several runs: comparisons of two runs, and sweeps."""
