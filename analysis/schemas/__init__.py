"""JSON Schemas of what tracetui prints as JSON: rows from the declared tables, the objects around them from here."""
