"""Holds the open runs, the selection, the filter, and the cache of analyses."""
