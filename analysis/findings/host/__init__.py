"""Rules about the host: launches, synchronisation, copies, the data loader."""
