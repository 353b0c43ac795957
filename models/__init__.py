"""The models that `tracetui profile` runs: the built-in networks, timm's, and the user's own."""
