"""The checks of `tracetui doctor`, one module per subject."""
