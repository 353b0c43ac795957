"""Tells from the start of a text whether it is Nsight Compute's, and its encoding; imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_WORDS = tuple(word.encode(code) for word in ("==", " Name", "Invocations") for code in ("utf-8", "utf-16-be"))
"""Every start of an ncu text has one of these; UTF-16 of either byte order contains the big-endian one's bytes."""
_LINE_BEGINS = {
    "utf-16-le": re.compile(rb'[\r\n]\0["=\d](?=\0)'),
    "utf-16-be": re.compile(rb'\0[\r\n]\0["=\d]'),
}
"""The end of a line with what ncu's next one starts with; of characters that lie half a character off, two letters of
no common script would be needed to look so."""
_TOOL_LINE = re.compile(r"^\s*==(?:PROF|WARNING|ERROR)== ", re.MULTILINE)
_ID = re.compile(r'(?:^|,\s*)"?(?:ID|Process ID)"?\s*(?=,)')
_QUOTED_ID = re.compile(r'"(?:ID|Process ID)"\s*(?=,)')
_NAME = re.compile(r',\s*"?(?:Kernel|Function|Range|Graph) Name"?\s*(?:,|$)')
_TABLE_WORDS = ("Kernel Name", "Function Name", "Range Name", "Graph Name", "Invocations")
"""Every table has one of these; the arguments of a trace's collectives have many other names."""
_METRIC = re.compile(r',\s*"?Metric Name"?\s*,')

EXPORT = "export the report with: ncu --import REPORT.ncu-rep --csv --page raw > REPORT.csv"
FOR_PEOPLE = (
    "what ncu prints for people, without --csv",
    f"run ncu with --csv --page raw (its output > REPORT.csv), or {EXPORT}",
)
TEXT_TABLE = re.compile(r"^\s*Metric Name +Metric Unit +Metric Value\s*$", re.MULTILINE)
SOURCE_PAGE = re.compile(r'^"(Address|#|Line No)","Source",', re.MULTILINE)
"""The header of the source page with its counters; without any it is the program's text alone."""
_OTHERS = (
    (
        re.compile(r'^(Launch Settings|Session Info)\s*\n("(Launch|Session) Attribute"|-{4})', re.MULTILINE),
        ("ncu's session page, which is about the machine and has no kernels", EXPORT),
    ),
    (
        re.compile(r'^"(Address|#|Line No)","Source"', re.MULTILINE),
        (
            "ncu's source page without its counters",
            "print it with: ncu --import REPORT.ncu-rep --csv --page source --print-source cuda,sass > REPORT.csv",
        ),
    ),
    (
        re.compile(r"^(Address|#|Line No) {2,}(Source|Address) ", re.MULTILINE),
        ("ncu's source page, printed for people, without a table of launches", EXPORT),
    ),
    (TEXT_TABLE, FOR_PEOPLE),
)
"""What tells other texts of ncu, each with what it is and what to do."""


def other_page(head: bytes) -> tuple[str, str] | None:
    """For the start of a text of ncu's without its table of launches: what it is, and what to do."""
    text = decode(head)
    return next((said for pattern, said in _OTHERS if pattern.search(text)), None)


def is_source_page(head: bytes) -> bool:
    """Whether the start of a file is ncu's source page with counters."""
    return b'"Source",' in head and SOURCE_PAGE.search(decode(head)) is not None


@lru_cache(maxsize=1)
def looks_like_ncu(head: bytes) -> bool:
    """Whether the start of a file has ncu's table header or a line of its log.

    The last answer is cached, because a folder's file is checked twice: whether to open it, and then what it is.
    """
    if not any(word in head for word in _WORDS):  # most files need no decoding
        return False
    text = decode(head)
    return ("==" in text and _TOOL_LINE.search(text) is not None) or _has_table(text)


def has_table(head: bytes) -> bool:
    """Whether the start of a file has a table of ncu's, and not only a line of its log."""
    return looks_like_ncu(head) and _has_table(decode(head))


def _has_table(text: str) -> bool:
    # a job of a thousand ranks looks at a thousand files: words are found a hundred times as fast as patterns
    if '"Source",' in text and SOURCE_PAGE.search(text) is not None:
        return True
    if not any(word in text for word in _TABLE_WORDS):
        return False
    return any(header_start(line) >= 0 for line in text.split("\n") if " Name" in line or "Invocations" in line)


def decode(content: bytes) -> str:
    """The text of a file without its byte order mark: UTF-8, or UTF-16 as PowerShell's ``>`` writes it.

    Lines that end in a carriage return alone, as an old spreadsheet saves them, end in a line feed afterwards.
    """
    return decode_counting(content)[0]


def decode_counting(content: bytes) -> tuple[str, int]:
    """As `decode`; also returns after how many breaks a text in UTF-16 was read on from the next line.

    A byte too many or too few shifts the halves of all characters behind it.
    """
    mark = next((mark for mark in _BOMS if content.startswith(mark)), b"")
    encoding = _BOMS.get(mark, "utf-8")
    if not mark and content[1:2] == b"\0" and content[:1] != b"\0":
        encoding = "utf-16-le"
    content = content[len(mark) :]
    starts = [0, *(_shifted(content, encoding) if encoding in _LINE_BEGINS else ())]
    parts = [content[begin:end].decode(encoding, "replace") for begin, end in pairwise([*starts, len(content)])]
    text = "".join(parts)
    return text if "\n" in text else text.replace("\r", "\n"), len(parts) - 1


def _shifted(content: bytes, encoding: str) -> Iterator[int]:
    """Where lines begin whose characters lie half a character from where those before them do."""
    begin = 0
    for found in _LINE_BEGINS[encoding].finditer(content):
        if (found.start() - begin) % 2:
            begin = found.start()
            yield begin


def header_start(line: str) -> int:
    """The position in a line where the table's header starts; -1 if the line has none.

    It may follow text that a program wrote without a line break.
    """
    if "ID" not in line or not (_NAME.search(line) or ("Invocations" in line and _METRIC.search(line))):
        return -1
    found = _ID.match(line.lstrip()) or _QUOTED_ID.search(line)
    if found is None:  # a table that was saved again may start with another of its columns
        return 0 if _ID.search(line) else -1
    return found.start() if found.re is _QUOTED_ID else len(line) - len(line.lstrip())
