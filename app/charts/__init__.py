"""Draws charts as text: takes data, width and height, and returns rows of text."""
