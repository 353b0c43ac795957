"""Collectives of a Chrome trace: their arguments on both read paths, and the frame made of them."""
