"""What reports say, section by section, as parts that text and Markdown lay out alike."""
