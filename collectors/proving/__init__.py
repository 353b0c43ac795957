"""What `tracetui prove` measures: changes of a run's options, each in turns with the run as it was."""
