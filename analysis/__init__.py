"""Pure functions from a Selection of a Trace to small frames: the numbers behind every tab and report section."""
