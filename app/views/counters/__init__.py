"""The Counters tab."""
