"""The GPU's memory: how near the limit, and how much room there is."""
