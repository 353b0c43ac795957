"""Rules that check the measurement first, then name bottlenecks with evidence and an upper bound of the gain."""
