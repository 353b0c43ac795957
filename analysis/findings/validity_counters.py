"""Do Nsight Compute's counters speak for the run? Rules on what was measured, and under which conditions."""
