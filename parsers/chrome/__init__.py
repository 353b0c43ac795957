"""Reads Chrome traces: Kineto's from 2020 to 2026, and any other that follows the Trace Event format."""
