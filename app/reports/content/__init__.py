"""The content of reports, section by section, as parts that both text and Markdown lay out."""
