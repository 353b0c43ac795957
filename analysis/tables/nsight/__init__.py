"""Tables of what Nsight Compute counts and of what Nsight Systems records beside CUDA."""
