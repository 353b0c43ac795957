"""Charts of text: data, width and height in, rows of text out."""
