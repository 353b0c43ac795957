"""Rules about GPU work: kernels, precision, fusion, memory."""
