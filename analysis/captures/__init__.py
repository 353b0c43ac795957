"""Several recordings of one kind side by side: what their names vary, and what their ranges measure."""
