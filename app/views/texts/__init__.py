"""What tabs write as text: findings, memory, the overview, what is selected in the timeline."""
