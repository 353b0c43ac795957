"""What a command's exit code says to the script that ran it."""

from __future__ import annotations

DONE = 0
UNREADABLE = 1
"""The input can't be read, or the output can't be written."""
USAGE = 2
CONDITION_HOLDS = 3
"""A ``--fail-on`` condition holds."""
INTERRUPTED = 130
"""Ctrl+C."""


class UsageError(Exception):
    """What was asked for does not fit the input: shown as one line, exit code 2."""
