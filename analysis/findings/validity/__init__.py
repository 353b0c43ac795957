"""Rules about the measurement: was it recorded whole, of what was asked for, on a machine at full speed."""
