"""Rules about several runs: two that are compared, and sweeps."""
