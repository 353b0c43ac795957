"""What is open: runs, selection, filter, and the cache of analyses."""
