"""The framework's allocator: how much it held, when, and who held it."""
