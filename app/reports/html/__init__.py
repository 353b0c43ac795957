"""Reports as one HTML file that needs nothing else: no script, style, font or picture from elsewhere."""
