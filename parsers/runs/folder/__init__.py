"""What a run's folder holds beside recordings: comments, proofs, its place in a sweep."""
