"""Is the measurement valid: what the numbers of a recording say about each other."""
