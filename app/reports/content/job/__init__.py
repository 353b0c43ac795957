"""What is printed of a job of many ranks, and of its collectives."""
