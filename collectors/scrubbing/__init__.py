"""Copies of recordings that can be shared: what names a person, a machine or a place is taken out, numbers stay."""
