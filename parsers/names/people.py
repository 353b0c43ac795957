"""Keeps the names of users out of what is read: diagnostics, programs, processes, threads, files of functions.

Machines stay.
"""

from __future__ import annotations

import re

HOME = "~"
SOMEBODY = "***"
_HOME = re.compile(r"(?<![\w.])(?:(?:/(?:gpu)?homes?|/Users)/+(?P<posix>[^/\\\s\"':;,()]+)|"
                   r"[A-Za-z]:\\+Users\\+(?P<windows>[^\\/\s\"':;,()]+))")  # fmt: skip
_NAMED = re.compile(
    r"(?P<before>\b(?:user(?: ?name)?|login|logname|owner)(?:\s*[=:]\s*|\s+(?=['\"`]))['\"`]?)"
    r"(?P<user>[A-Za-z_][\w.-]*)",
    re.IGNORECASE,
)
_AT = re.compile(r"(?<![\w.@/-])(?P<user>[A-Za-z_][\w.-]*)@(?=[A-Za-z][\w-]*(?:\.[\w-]+)*)(?!plt\b|[A-Z]+_)")
_SHORTEST = 3
MAY_HOLD_HOME = "(?i)home|Users"
"""What every text with a home folder has."""


def without_home(text: str) -> str:
    """The text with home folders as ``~``: of a name of a function it leaves what finds the function."""
    return _HOME.sub(HOME, text) if re.search(MAY_HOLD_HOME, text) else text


def without_users(text: str) -> str:
    """The text with home folders as ``~`` and without users' names, wherever they stand in it as words."""
    users = {match["posix"] or match["windows"] for match in _HOME.finditer(text)}
    text = _HOME.sub(HOME, text)
    users |= {match["user"] for match in _NAMED.finditer(text)}
    text = _NAMED.sub(lambda match: match["before"] + SOMEBODY, text)
    if "@" in text:
        text = _AT.sub(f"{SOMEBODY}@", text)
    for user in sorted(users):
        if len(user) >= _SHORTEST:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(user)}(?![A-Za-z0-9])", SOMEBODY, text)
    return text
