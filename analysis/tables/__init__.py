"""Every table of the program, declared once: its columns, their meaning, and where each column is shown."""
