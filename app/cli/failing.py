"""What is printed, and the exit code, if a command fails."""

from __future__ import annotations

import sys

from tracetui.app.text.exit_codes import UNREADABLE, USAGE, UsageError


def explain(error: Exception) -> int:
    """One line on standard error for what went wrong, and the exit code that goes with it."""
    from tracetui.app.text.fitting import printable

    if isinstance(error, UsageError):
        code, line = USAGE, str(error)
    else:
        code, line = UNREADABLE, _unreadable(error)
    print(f"tracetui: {printable(line)}", file=sys.stderr)
    return code


def _unreadable(error: Exception) -> str:
    from tracetui.parsers.errors import TraceError

    if isinstance(error, TraceError):
        return str(error)
    if isinstance(error, FileNotFoundError) and not error.filename:
        return "the working directory is gone; change to one that is there"
    if isinstance(error, OSError):
        return f"{error.filename or 'standard output'}: {error.strerror or error}"
    if isinstance(error, MemoryError):
        return "out of memory; a recording with fewer steps needs less"
    return f"{type(error).__name__}: {error}; this is a bug in tracetui, --debug shows where"
