"""Several recordings of one kind side by side: how their names differ, and what their ranges measure."""
