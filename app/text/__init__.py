"""How numbers, names and times are written for people."""
