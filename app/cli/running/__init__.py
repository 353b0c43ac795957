"""From the parsed command line to the work: a function per command, which imports that work when it is called."""
