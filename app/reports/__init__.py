"""Reports as text, Markdown, HTML, CSV and JSON."""
