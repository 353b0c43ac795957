"""Finds ncu's tables in a text that may also have a program's output and ncu's own log lines."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from tracetui.parsers.ncu.sniff import TEXT_TABLE, header_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tracetui.parsers.tally import Tally

LONGEST_RECORD = 200
"""The most lines of one record; a quote that stays open for longer is damage."""
PIECE = 200_000
"""The most cells of a wide table that are kept as Python strings."""
NAMES = ("Kernel Name", "Function Name", "Range Name", "Graph Name")
IDENTITY = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", *NAMES, "Kernel Time", "Context", "Stream", "Block Size",
        "Grid Size", "Device", "CC", "Invocations", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
        "Minimum", "Maximum", "Average", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type",
        "Estimated Speedup",
    }
)  # fmt: skip
"""Columns that hold no metric."""
_LOG = re.compile(r"==(PROF|WARNING|ERROR)==\s*(.*)")
GLUED = re.compile(r'"\d+",\s*"\d+",\s*"')
"""Matches the start of a record, also after text that the program printed without a line break."""
_NUMBER = re.compile(r"\s*\d+\s*$")


@dataclass
class Table:
    """One table of the file: its header, its units row, and its records."""

    header: list[str]
    units: list[str] = field(default_factory=list)
    records: list[list[str]] = field(default_factory=list)
    """The records; those of a wide table have their metrics in `cells` instead."""
    cells: list[pl.Series] = field(default_factory=list)
    """The metrics of a wide table's records, record by record, in pieces of whole records."""

    def __post_init__(self) -> None:
        """Works out which column is which."""
        self.column = {name: place for place, name in reversed(list(enumerate(self.header)))}
        self._piece: list[str] = []

    def add(self, fields: list[str]) -> None:
        """Appends a record."""
        if self.form != "wide":
            self.records.append(fields)
            return
        # a list of Python strings would take ten times the file
        self._piece.extend([fields[place] for place in self.metric_columns])
        for place in self.metric_columns:
            fields[place] = ""
        self.records.append(fields[: self.metric_columns[0]] if self._metrics_last else fields)
        if len(self._piece) >= PIECE:
            self.finish()

    def finish(self) -> None:
        """Moves the remaining metrics to `cells`."""
        if self._piece:
            self.cells.append(pl.Series(self._piece, dtype=pl.String))
            self._piece = []

    @cached_property
    def _metrics_last(self) -> bool:
        """Whether all columns after the first metric are metrics."""
        return len(self.header) - len(self.metric_columns) == min(self.metric_columns, default=-1)

    @cached_property
    def form(self) -> str:
        """``wide``: one launch per row; ``long``: one metric or rule; ``summary``: one metric of a kernel."""
        if "Metric Name" not in self.column:
            return "wide"
        return "long" if "Metric Value" in self.column else "summary"

    @property
    def name_column(self) -> int | None:
        """The column with the kernel's name."""
        return next((self.column[name] for name in NAMES if name in self.column), None)

    @property
    def nvtx_columns(self) -> dict[str, int]:
        """The columns with NVTX ranges, by our names for them."""
        kinds = {"Push/Pop_Range": "push/pop range", "Start/Stop_Range": "start/end range"}
        return {kind: place for place, name in enumerate(self.header) for part, kind in kinds.items() if part in name}

    @cached_property
    def metric_columns(self) -> list[int]:
        """The metric columns of a wide table: all that don't say which launch it is, in whatever order."""
        taken = IDENTITY | {"", *(self.header[place] for place in self.nvtx_columns.values())}
        return sorted(place for name, place in self.column.items() if name not in taken)


@dataclass
class Log:
    """What ncu printed besides its tables."""

    warnings: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    denied: bool = False
    """Whether the driver let only root read counters."""
    nothing_profiled: bool = False
    other_page: bool = False
    """Whether the text has a table of another page: the source view."""
    for_people: bool = False
    """Whether it has tables as ncu prints them without ``--csv``."""


def read_tables(text: str, tally: Tally) -> tuple[list[Table], Log]:
    """The tables of a text in order, with their complete records; counts those that were cut short."""
    tables: list[Table] = []
    log = Log()
    lines = text.replace("\0", "").split("\n")
    position = 0
    pending: list[str] = []
    while position < len(lines):
        line = lines[position].rstrip("\r")
        position += 1
        if line.startswith('"') and not line.startswith('"ID"') and tables:
            if line.count('"') % 2:
                line, position = _joined(lines, line, position)
                if not line:
                    tally.skipped("row cut short", 1, lines[position - 1])
                    continue
            pending.append(line)
            continue
        if (at := header_start(line)) >= 0:
            _add(tables, pending, tally)
            pending = []
            tables.append(Table(_header(line[at:])))
            continue
        if (found := _LOG.match(line.lstrip())) is not None:
            _note(log, found[1], found[2].strip())
            continue
        _other(line, log)
        if tables and "," in line:
            if (glued := GLUED.search(line)) is not None and line.count('"', glued.start()) % 2 == 0:
                pending.append(line[glued.start() :])
            elif line[:1].isdigit() or line.startswith(","):  # a table that was saved again quotes only if necessary
                pending.append(line)
    _add(tables, pending, tally)
    return tables, log


def _header(line: str) -> list[str]:
    try:
        found = next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:
        return []
    return [name.strip() for name in found]


def _joined(lines: list[str], line: str, position: int) -> tuple[str, int]:
    """A record whose quotes close on a later line, and where the next one starts; empty if they never close."""
    parts = [line]
    for after in range(position, min(position + LONGEST_RECORD, len(lines))):
        following = lines[after].rstrip("\r")
        if GLUED.match(following) or _LOG.match(following):
            break
        parts.append(following)
        if following.count('"') % 2:
            return "\n".join(parts), after + 1
    return "", position


def _note(log: Log, kind: str, said: str) -> None:
    log.denied |= "ERR_NVGPUCTRPERM" in said
    log.nothing_profiled |= "No kernels were profiled" in said
    if kind == "WARNING":
        log.warnings[said.removeprefix("Note: ")] += 1
    elif kind == "ERROR":
        log.errors[said] += 1


def _other(line: str, log: Log) -> None:
    if "ERR_NVGPUCTRPERM" in line:
        log.denied = True
    elif '"Address","Source"' in line or '"#","Source"' in line:
        log.other_page = True
    elif TEXT_TABLE.match(line):
        log.for_people = True


def _add(tables: list[Table], lines: list[str], tally: Tally) -> None:
    """Puts the records among these lines into the last table."""
    if not tables:
        return
    table = tables[-1]
    width = len(table.header)
    for name, count in Counter(table.header).items():
        if count > 1 and name:
            tally.repaired("column that stands twice: the first counts", count - 1, name)
    least = width if table.form == "wide" else _least(table)
    identity = table.column.get("ID", table.column.get("Process ID", 0))
    for fields in _records(lines, tally):
        if len(fields) <= identity:
            continue
        if not _NUMBER.match(fields[identity]):
            if not table.units and not table.records and not fields[identity].strip() and len(fields) == width:
                table.units = fields
            continue  # a line of the program that starts like a record
        if len(fields) < least or (len(fields) > width and any(fields[width:])):
            tally.skipped("row cut short" if len(fields) < least else "row with too many fields", 1, ",".join(fields))
            continue
        table.add(fields)
    table.finish()


def _least(table: Table) -> int:
    """The least number of fields in a record of a long table; the record of a rule has more."""
    return 1 + max(table.column[name] for name in ("Metric Name", "Metric Value", "Average") if name in table.column)


def _records(lines: Iterable[str], tally: Tally) -> Iterator[list[str]]:
    reader = csv.reader(lines, skipinitialspace=True)
    fields: list[str] | None = []
    while fields is not None:
        try:
            fields = next(reader, None)
        except csv.Error as error:  # a field longer than the module allows
            tally.skipped("row that is no CSV", 1, str(error))
            continue
        if fields:
            yield fields
