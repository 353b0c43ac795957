"""What rules are: declarations, which need no analysis."""
