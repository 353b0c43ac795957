"""Bottlenecks of the whole system: launches, the host, data, copies, synchronisation."""
