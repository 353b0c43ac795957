"""Which collectives of different ranks are one, and how the clocks of their hosts differ."""
