"""The machine during the run: heat, clocks, power mode, memory."""
