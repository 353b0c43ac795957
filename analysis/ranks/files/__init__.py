"""Summaries as files: made on processes or a cluster, kept in a folder, and found again."""
