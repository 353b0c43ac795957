"""The options of the commands, a module per group of commands; argparse only."""
