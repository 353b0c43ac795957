"""What every analysis builds on: sets of time intervals, statistics, whose definitions a number follows."""
