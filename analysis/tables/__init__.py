"""Every table of the program, declared once: its columns, their meaning, and where each of them shows."""
