"""What `tracetui doctor` looks at, a module per subject."""
