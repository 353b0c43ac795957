"""Reads what Nsight Compute prints as CSV."""
