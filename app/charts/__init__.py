"""Draws charts, a module each: as rows of text, and as SVG for pages, which gives colours and fonts."""
