"""Launches profiled runs, records the machine's state, checks the set-up (`doctor`) and scrubs recordings."""
