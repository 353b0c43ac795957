"""Whether a text is Nsight Compute's, and how it is encoded, from its beginning; imports nothing heavy."""

from __future__ import annotations

import re
from functools import lru_cache

_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_WORDS = tuple(word.encode(code) for word in ("==", " Name", "Invocations") for code in ("utf-8", "utf-16-be"))
"""One of them is in every beginning that is ncu's; little-endian UTF-16 holds the big-endian's bytes but for an end."""
_TOOL_LINE = re.compile(r"^\s*==(?:PROF|WARNING|ERROR)== ", re.MULTILINE)
_ID = re.compile(r'(?:^|,\s*)"?(?:ID|Process ID)"?\s*(?=,)')
_QUOTED_ID = re.compile(r'"(?:ID|Process ID)"\s*(?=,)')
_NAME = re.compile(r',\s*"?(?:Kernel|Function|Range|Graph) Name"?\s*(?:,|$)')
_METRIC = re.compile(r',\s*"?Metric Name"?\s*,')


@lru_cache(maxsize=1)
def looks_like_ncu(head: bytes) -> bool:
    """Whether the beginning of a file holds ncu's table header or a line of its log.

    The last answer is kept: a file of a folder is asked whether it is worth opening, then what it is.
    """
    if not any(word in head for word in _WORDS):  # most files need no decoding
        return False
    text = decode(head)
    return _TOOL_LINE.search(text) is not None or any(header_start(line) >= 0 for line in _candidates(text))


def decode(content: bytes) -> str:
    """The text of a file: UTF-8, or UTF-16 as PowerShell's ``>`` writes it; without its byte order mark."""
    for mark, encoding in _BOMS.items():
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    if content[1:2] == b"\0" and content[:1] != b"\0":
        return content.decode("utf-16-le", "replace")
    return content.decode("utf-8", "replace")


def header_start(line: str) -> int:
    """Where in a line the table's header begins, -1 where it holds none.

    What a program wrote last without a line break may stand before it.
    """
    if "ID" not in line or not (_NAME.search(line) or ("Invocations" in line and _METRIC.search(line))):
        return -1
    found = _ID.match(line.lstrip()) or _QUOTED_ID.search(line)
    if found is None:  # a table saved anew may begin with another of its columns
        return 0 if _ID.search(line) else -1
    return found.start() if found.re is _QUOTED_ID else len(line) - len(line.lstrip())


def _candidates(text: str) -> list[str]:
    return [line for line in text.split("\n") if " Name" in line or "Invocations" in line]
