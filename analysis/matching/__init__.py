"""Which kernel of one recording is which kernel of another."""
