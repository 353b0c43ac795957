"""Which operator, module and range launched which GPU work: host events as trees, and their launches."""
