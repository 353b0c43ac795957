"""Reads the machine's state (clocks, temperatures, power, software) from files and programs; never raises."""
