"""Sends the screen to the terminal: keeps it as cells, and writes only the bytes for what differs."""
