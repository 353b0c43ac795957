"""Whether a text is Nsight Compute's, from its beginning; imports nothing heavy."""

from __future__ import annotations

import re

_HEADER = re.compile(rb'^\s*"?(?:ID|Process ID)"?,', re.MULTILINE)
_TOOL_LINE = re.compile(rb"^==(?:PROF|WARNING|ERROR)==", re.MULTILINE)


def looks_like_ncu(head: bytes) -> bool:
    """Whether the beginning of a file holds ncu's table header or a line of its log."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    return _TOOL_LINE.search(text) is not None or (_HEADER.search(text) is not None and b'"Kernel Name"' in text)
