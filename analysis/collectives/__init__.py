"""Collectives of one recording: what each moved, between whom, and how fast."""
