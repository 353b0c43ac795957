"""Reads logs of tegrastats, which says every second how busy a Jetson board is and what it draws."""
