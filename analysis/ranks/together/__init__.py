"""What the summaries of all ranks say together: who waited for whom, who is late, and why."""
