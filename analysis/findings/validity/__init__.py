"""Rules that check the measurement: is the recording complete, did it run what was asked for, at full speed?"""
