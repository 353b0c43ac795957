"""Screens over the main one: texts to read, lists to choose from, the palette."""
