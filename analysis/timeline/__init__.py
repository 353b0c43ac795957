"""A trace as lanes on one time axis, for any stretch and any number of screen cells."""
