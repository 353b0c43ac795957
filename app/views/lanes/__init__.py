"""The parts of the Timeline: what it says of an event, how it goes to others, marks and ranks."""
