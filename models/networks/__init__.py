"""The networks that can be profiled by name."""
