"""Reads the SQLite databases that Nsight Systems exports."""
