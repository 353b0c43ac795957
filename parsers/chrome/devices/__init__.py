"""What a Chrome trace says of devices: which they are, what ran on those that are no GPUs, and counters of kernels."""
