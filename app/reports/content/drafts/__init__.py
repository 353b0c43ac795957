"""Drafts of whole reports: the sections that a report by hand has, in its order, filled from recordings."""
