"""The Memory tab."""
