"""Sizes, FLOPs and bytes of the networks, by arithmetic or counted."""
