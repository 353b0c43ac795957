"""The exit codes of the commands."""

DONE = 0
UNREADABLE = 1
"""The input can't be read, or the output can't be written."""
USAGE = 2
CONDITION_HOLDS = 3
"""A ``--fail-on`` condition holds."""
NOT_JUDGED = 4
"""A ``--fail-on`` condition can't be judged: the runs did other work, or do not tell a change from chance."""
INTERRUPTED = 130
"""Ctrl+C."""


class UsageError(Exception):
    """The request does not fit the input: shown as one line, exit code 2."""
