"""What the tabs have in common: pages of tables, drilling down, saving, pictures."""
