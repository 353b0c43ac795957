"""Is the measurement valid: what run.json says beside the recording."""
