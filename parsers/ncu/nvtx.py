"""Reads the NVTX ranges that ncu prints for a launch."""

from __future__ import annotations

import re
from functools import lru_cache

_QUOTED = re.compile(r'"((?:[^"]|"(?!\s|$))*)"')
_ATTRIBUTES = 6
"""Payload type and value, colour type and colour, message type and message follow domain and name."""
DEFAULT_DOMAIN = "<default domain>"


@lru_cache(maxsize=4096)
def ranges(cell: str) -> tuple[str, ...]:
    """The names in a cell, outermost first; those of a domain other than the default one as ``domain:name``.

    A cell holds a thread or range id and then, for each range, ``"domain:name:none:none:none:none:none:none"``.
    """
    return tuple(name for name in map(_name, _QUOTED.findall(cell)) if name)


def _name(text: str) -> str:
    domain, colon, rest = text.partition(":")
    if not colon:
        return text
    parts = rest.rsplit(":", _ATTRIBUTES)
    # some scripts print fewer attributes than ncu
    name = parts[0] if len(parts) == _ATTRIBUTES + 1 else rest.partition(":")[0]
    message = parts[-1] if len(parts) == _ATTRIBUTES + 1 else "none"
    if name in ("", "none") and message not in ("", "none"):
        name = message
    return name if domain in ("", DEFAULT_DOMAIN) else f"{domain}:{name}"
