"""Keeps the profiled program's environment out of everything that is shown, cached or exported.

Nsight Systems stores the whole environment of the process, also as NUL-separated strings among its names.
"""

from __future__ import annotations

import re

HIDDEN = "[environment variables, not shown]"

_ASSIGNMENT = r"(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*="
_IN_BLOCK = re.compile(rf"(?:^|\x00)\s*{_ASSIGNMENT}[^\x00]*(?:\x00|$)")
_LINES = re.compile(rf"(?:^|[\n;]|(?<=\s)(?=[A-Z_]+=))\s*{_ASSIGNMENT}")
# a number is no secret: `max_token=512` is what a program says of its work
_SECRET = re.compile(
    r"(?<![A-Za-z0-9])[A-Za-z0-9_]*"
    r"(?:SECRET|TOKEN|PASSWD|PASSWORD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)(?:_[A-Za-z0-9_]*)?"
    r"\s*=\s*(?!-?\d+(?:\.\d+)?\b)[^\s=]",
    re.IGNORECASE,
)
_WELL_KNOWN = re.compile(
    r"(?:^|[\x00\n;\s])(?:PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|LD_LIBRARY_PATH|PYTHONPATH|HOSTNAME|LANG|TERM|MAIL)="
)


def is_environment(text: str) -> bool:
    """Whether a text holds environment variables: a block of assignments, a well-known one, or a secret."""
    if "=" not in text:
        return False
    if "\x00" in text and _IN_BLOCK.search(text):
        return True
    return bool(_SECRET.search(text) or _WELL_KNOWN.search(text)) or len(_LINES.findall(text)) >= 3


def shown(text: str) -> str:
    """The text, or a replacement if it must not be shown."""
    return HIDDEN if is_environment(text) else text
