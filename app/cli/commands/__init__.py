"""A module per command: its `Options` say what is typed, `run` does it; heavy imports wait until it runs."""
