"""Charts as rows of text: pure functions from data, width, height and glyphs."""
