"""Sizes, FLOPs and bytes of the networks, computed by arithmetic or counted."""
