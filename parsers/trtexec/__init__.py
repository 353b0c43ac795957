"""Reads what trtexec says of an engine of TensorRT."""
