"""Launching profiled runs: `tracetui profile` will live here."""
