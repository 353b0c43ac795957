"""Cuts a stretch of a Chrome trace into a smaller Chrome trace."""
