"""What every analysis builds on: sets of time intervals, statistics, and the conventions that numbers follow."""
