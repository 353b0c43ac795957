"""Reads CUDA memory snapshots of PyTorch."""
