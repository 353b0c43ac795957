"""Demangles and shortens names of kernels, and makes them comparable across tools."""
