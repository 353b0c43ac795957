"""The checklist to go through before optimising: what is done, what failed, and what the recording does not tell."""
