"""Sets of captures and of runs as the JSON contract."""
