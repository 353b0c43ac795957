"""The report as JSON text that is also safe to look at in a terminal."""

from __future__ import annotations

import json
import re

from msgspec import to_builtins

_UNUSUAL = re.compile(r"[^\n -~]")


def to_json(found: object, *, compact: bool = False) -> str:
    """Indented JSON; characters that a terminal could obey are escaped, other letters stay readable.

    Args:
        found: what to write.
        compact: on one line, without spaces.

    Raises:
        ValueError: a value is NaN or infinite, which JSON does not have.
    """
    if compact:
        text = json.dumps(to_builtins(found), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    else:
        text = json.dumps(to_builtins(found), ensure_ascii=False, indent=1, allow_nan=False)
    return _UNUSUAL.sub(lambda match: _escaped(match[0]), text) + "\n"


def _escaped(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"
