"""Reports as text, Markdown, CSV and JSON."""
