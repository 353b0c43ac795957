"""Sweeps in reports: the page, its sections alone, what variants add and remove."""
