"""Writes numbers, names and times for people."""
