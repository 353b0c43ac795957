"""What changed from one run to another, and whether the two may be compared."""
