"""Copies Nsight Compute's CSV with the columns that name the machine and the program blanked and paths shortened.

It tells lines apart as the reader does (`parsers/ncu/tables.py`), so that the copy gives the same rows and notes.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection
from itertools import zip_longest

from tracetui.collectors.scrubbing.marks import HOST, MASK, OUTPUT, TORN
from tracetui.collectors.scrubbing.paths import is_absolute
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers.ncu.sniff import SOURCE_PAGE, decode, header_start
from tracetui.parsers.ncu.source_page import FILE_TITLES, KERNEL_TITLES
from tracetui.parsers.ncu.tables import GLUED, LONGEST_RECORD

HOST_COLUMN = "Host Name"
NAMES = frozenset({"Kernel Name", "Function Name", "Demangled", "Metric Name", "Section Name", "Rule Name"})
LEARNED_LINES = 5000
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?%?")
SAID_BY_PROGRAM = "[program output]"
_TOOL_LINE = re.compile(r"\s*==(?:PROF|WARNING|ERROR)==")
_TELLING = ("ERR_NVGPUCTRPERM", '"Address","Source"', '"#","Source"')
"""Texts that the reader looks for in other lines."""


def scrub_ncu(content: bytes, redactor: Redactor) -> str:
    """The text of the copy. Lines that the program itself printed between the tool's lines become empty."""
    text = decode(content).replace("\0", "")
    ending = "\r\n" if "\r\n" in text else "\n"
    lines = [line.rstrip("\r") for line in text.split("\n")]
    if SOURCE_PAGE.search(text):
        return ending.join(_source(lines, redactor))
    return ending.join(_Copy(redactor, _learn(lines, redactor)).lines(lines))


def _learn(lines: list[str], redactor: Redactor) -> Collection[int]:
    """Learns the machine's name from the first rows, since what comes before them may have it too.

    Returns:
        How many cells a row has that names it: in a damaged row something else may stand in the machine's column, whose
        name would then be replaced everywhere.
    """
    at: int | None = None
    hosts: dict[int, Counter[str]] = {}
    for line in lines[:LEARNED_LINES]:
        if (start := header_start(line)) >= 0:
            columns = [name.strip() for name in _fields(line[start:])]
            at = columns.index(HOST_COLUMN) if HOST_COLUMN in columns else None
        elif at is not None and line.startswith('"') and at < len(row := _fields(line)):
            hosts.setdefault(len(row), Counter())[row[at]] += 1
    usual = {width for width, names in hosts.items() if names.total() > 1} or set(hosts)
    for width in usual:
        for name in hosts[width]:
            redactor.learn(name, HOST)
    return usual


class _Copy:
    def __init__(self, redactor: Redactor, widths: Collection[int]) -> None:
        self._redactor, self._widths = redactor, widths
        self._columns: list[str] = []
        self._known: dict[tuple[str, str], str] = {}

    def lines(self, lines: list[str]) -> list[str]:
        out = []
        position = 0
        while position < len(lines):
            line = lines[position]
            position += 1
            if line.startswith('"') and not line.startswith('"ID"') and self._columns:
                if line.count('"') % 2:
                    line, position, is_whole = _joined(lines, line, position)
                    out.append(self._row(line) if is_whole else self._row(line, is_cut=True)[:-1])
                else:
                    out.append(self._row(line))
            elif (start := header_start(line)) >= 0:
                self._columns = [name.strip() for name in _fields(line[start:])]
                self._redactor.count(OUTPUT, bool(start))
                new = [self._redactor.value(name) for name in self._columns]
                out.append(line[start:] if new == self._columns else _line(new))
            elif (tool := _TOOL_LINE.match(line)) or any(part in line for part in _TELLING):
                # a file that was cut off ends in the middle of a line
                is_cut = tool is not None and position == len(lines)
                out.append(tool[0] + self._torn() if tool and is_cut else self._redactor.value(line))
            else:
                out.append(self._other(line))
        return out

    def _other(self, line: str) -> str:
        """Scrubs a line of the program, which a row may follow, or a row of a table that was saved without quotes."""
        if self._columns and "," in line:
            glued = GLUED.search(line)
            if glued is not None and line.count('"', glued.start()) % 2 == 0:
                self._redactor.count(OUTPUT)
                return SAID_BY_PROGRAM + self._row(line[glued.start() :])
            if line[:1].isdigit() or line.startswith(","):
                return self._row(line)
        if not line.strip():
            return line
        self._redactor.count(OUTPUT)
        return SAID_BY_PROGRAM

    def _torn(self) -> str:
        self._redactor.count(TORN)
        return MASK

    def _row(self, line: str, *, is_cut: bool = False) -> str:
        """The row with the machine and the program blanked; unchanged if it names neither.

        Of one whose last cell has no end, that cell says nothing.
        """
        row = _fields(line)
        if len(row) in self._widths and HOST_COLUMN in self._columns[: len(row)]:
            self._redactor.learn(row[self._columns.index(HOST_COLUMN)], HOST)
        new = [self._cell(name, cell) for name, cell in zip_longest(self._columns[: len(row)], row, fillvalue="")]
        if is_cut and new:
            new[-1] = self._torn()
        if new == row and line.count('"') % 2 == 0:
            return line
        return _line(new)

    def _cell(self, column: str, cell: str) -> str:
        if not cell or _NUMBER.fullmatch(cell):
            return cell
        if column == HOST_COLUMN:
            return self._redactor.mark(HOST, cell)
        known = self._known.get((column, cell))
        if known is None:
            is_name = column in NAMES or "NVTX" in column or "Range" in column
            known = self._redactor.name(cell) if is_name else self._redactor.value(cell)
            self._known[column, cell] = known
        return known


def _source(lines: list[str], redactor: Redactor) -> list[str]:
    """The rows of a source page; what a program printed between them becomes empty."""
    out = []
    for fields in csv.reader(lines):
        if len(fields) < 2:
            redactor.count(OUTPUT, bool(fields))
            out.append("")
            continue
        if fields[0] in FILE_TITLES:
            new = [
                fields[0],
                *(redactor.path(cell) if is_absolute(cell) else redactor.value(cell) for cell in fields[1:]),
            ]
        elif fields[0] in KERNEL_TITLES:
            new = [fields[0], *(redactor.name(cell) for cell in fields[1:])]
        else:
            new = [cell if _NUMBER.fullmatch(cell) else redactor.value(cell) for cell in fields]
        out.append(_line(new))
    return out


def _line(row: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="").writerow(row)
    return text.getvalue()


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:
        return []


def _joined(lines: list[str], line: str, position: int) -> tuple[str, int, bool]:
    """A record whose quotes close on a later line, where the next record starts, and whether the quotes do close."""
    parts = [line]
    for after in range(position, min(position + LONGEST_RECORD, len(lines))):
        following = lines[after]
        if GLUED.match(following) or _TOOL_LINE.match(following):
            break
        parts.append(following)
        if following.count('"') % 2:
            return "\n".join(parts), after + 1, True
    return line, position, False
