"""The networks that `tracetui profile NAME` will run."""
