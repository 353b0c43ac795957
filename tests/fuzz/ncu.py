"""Tables of Nsight Compute: the raw page (wide), the details page (long), and what surrounds them."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from fuzz import road, same, values
from fuzz.case import NOTED, READ, REFUSED, Find, Plan
from fuzz.spans import BYTEWISE, Spans

ROW = ("kind", "section", "metric", "unit", "value", "text")
ENDS = ("\n", "\n", "\n", "\r\n", "\r")


@dataclass
class NcuDoc:
    """Header, records and the lines around them."""

    base: NcuBase
    header: list[str]
    units: list[str] | None
    records: list[list[str]]
    touched: set[int] = field(default_factory=set)
    """Records that were changed."""
    columns: int = 0
    """Columns that were changed: a counter of each record."""
    counted: bool = True
    """Whether it is known how many records there are."""
    everything: bool = False
    """Whether it is no longer the table that it was."""
    before: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    between: dict[int, str] = field(default_factory=dict)
    end: str = "\n"
    quoting: Any = csv.QUOTE_ALL
    encoding: str = "utf-8"
    mark: bool = False
    packed: bool = False
    torn: bool = False
    spans: Spans | None = None

    def spread(self) -> Spans:
        if self.spans is None:
            out = bytearray("\ufeff".encode(self.encoding) if self.mark else b"")
            places: list[tuple[int, int] | None] = []
            for line in self.before:
                out += self._coded(line + self.end)
            for row in (self.header, self.units):
                if row is not None:
                    out += self._coded(self._line(row))
            for number, record in enumerate(self.records):
                if number in self.between:
                    out += self._coded(self.between[number] + self.end)
                text = self._coded(self._line(record))
                places.append((len(out), len(out) + len(text)))
                out += text
            for line in self.behind:
                out += self._coded(line + self.end)
            self.spans = Spans(out, places)
        return self.spans

    def _coded(self, text: str) -> bytes:
        return text.encode(self.encoding, "replace")

    def _line(self, row: list[str]) -> str:
        out = io.StringIO()
        csv.writer(out, quoting=self.quoting, lineterminator=self.end).writerow(row)
        return out.getvalue()

    def write(self, folder: Path) -> Path:
        path = folder / "in.csv"
        content = bytes(self.spread().data)
        path.write_bytes(gzip.compress(content, 1) if self.packed else content)
        return path


@dataclass
class NcuBase:
    """A table, and what the program reads in it."""

    before: list[str]
    header: list[str]
    units: list[str] | None
    records: list[list[str]]
    counters: Counter[tuple[object, ...]] = field(default_factory=Counter)
    total: int = 0
    launches: int = 0
    notes: int = 0

    def doc(self) -> NcuDoc:
        return NcuDoc(self, list(self.header), None if self.units is None else list(self.units),
                      [list(record) for record in self.records], before=list(self.before))  # fmt: skip


def _cell(dice: Random) -> str:
    value = values.anything(dice) if dice.random() < 0.5 else dice.choice(
        ("1,234.5", "1.234,5", "12%", "nan", "inf", "-1", "1e308", "1e400", "n/a", "(1, 2)", "(1,2,3)", "(x)",
         "9" * 400,
         "0", "1;2;3", '"', '""', "a,b", "3 (1; 2)", "0x10", "1 234", "−5"))  # fmt: skip
    return values.written(value) if not isinstance(value, str) else str(value)


def _record(doc: NcuDoc, dice: Random) -> int:
    place = dice.randrange(len(doc.records))
    doc.touched.add(place)
    return place


def odd_cell(doc: NcuDoc, dice: Random) -> None:
    for _ in range(dice.choice((1, 2, 6))):
        if not doc.records:
            return
        record = doc.records[_record(doc, dice)]
        if record:
            record[dice.randrange(len(record))] = _cell(dice)


def odd_identity(doc: NcuDoc, dice: Random) -> None:
    """ID, process, sizes, device and compute capability."""
    known = [at for at, name in enumerate(doc.header) if name in (
        "ID", "Process ID", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC",
        "Section Name", "Metric Name", "Metric Unit", "Metric Value")]  # fmt: skip
    for _ in range(dice.choice((1, 2, 6))):
        if doc.records and known:
            record, at = doc.records[_record(doc, dice)], dice.choice(known)
            if at < len(record):
                record[at] = (
                    _cell(dice) if dice.random() < 0.7 else dice.choice(("", "0", "-1", "99999999999999999999", "1 "))
                )
    doc.everything = True


def cell_count(doc: NcuDoc, dice: Random) -> None:
    """A record with a field too many or too few."""
    if doc.records:
        record = doc.records[_record(doc, dice)]
        if dice.random() < 0.5:
            record.insert(dice.randrange(len(record) + 1), _cell(dice))
        else:
            del record[dice.randrange(len(record) + 1) :]


def removed_record(doc: NcuDoc, dice: Random) -> None:
    if len(doc.records) > 1:
        place = dice.randrange(len(doc.records))
        del doc.records[place]
        doc.touched = {at - (at > place) for at in doc.touched if at != place}


def doubled_record(doc: NcuDoc, dice: Random) -> None:
    if doc.records:
        doc.records.append(list(dice.choice(doc.records)))
        doc.touched.add(len(doc.records) - 1)
        doc.everything = True


def shuffled(doc: NcuDoc, dice: Random) -> None:
    dice.shuffle(doc.records)
    doc.everything = True


def other_column(doc: NcuDoc, dice: Random) -> None:
    """A column with another name, the name of another, or none."""
    at = dice.randrange(len(doc.header))
    doc.header[at] = dice.choice(
        ("", "x", doc.header[dice.randrange(len(doc.header))], values.text(dice), "ID", "Metric Name")
    )
    doc.everything = True


def removed_column(doc: NcuDoc, dice: Random) -> None:
    at = dice.randrange(len(doc.header))
    for row in (doc.header, doc.units, *doc.records):
        if row is not None and at < len(row):
            del row[at]
    doc.everything = True


def odd_units(doc: NcuDoc, dice: Random) -> None:
    doc.everything = True
    if doc.units is None or dice.random() < 0.2:
        doc.units = None
        return
    for _ in range(dice.choice((1, 4))):
        doc.units[dice.randrange(len(doc.units))] = dice.choice(
            ("", "Kbyte", "usecond", "%", "\x1b[1m", "x" * 99, "Tbyte/s")
        )


def lines_around(doc: NcuDoc, dice: Random) -> None:
    """Lines of ncu's log and of the program, before, between and after the records."""
    lines = (
        "==PROF== Connected to process 77", "==WARNING== odd", "==ERROR== failed", "epoch 1, loss 0.5", "a,b,c", "",
        "1,2", "==PROF== Profiling \"k\": 0%",
        "\x1b[32mok\x1b[0m", '"ID","Address","Source"', "==ERROR== ERR_NVGPUCTRPERM",
    )  # fmt: skip
    doc.counted = False  # a line of the program may look like a record
    for _ in range(dice.choice((1, 3))):
        where = dice.randrange(3)
        if where == 0:
            doc.before.insert(0, dice.choice(lines))
        elif where == 1:
            doc.behind.append(dice.choice(lines))
        else:
            doc.between[dice.randrange(len(doc.records) + 1)] = dice.choice(lines)


def second_table(doc: NcuDoc, dice: Random) -> None:
    """The header again, as when two reports were joined."""
    doc.between[dice.randrange(len(doc.records) + 1)] = doc._line(doc.header).rstrip("\r\n")
    doc.everything = True


def other_ends(doc: NcuDoc, dice: Random) -> None:
    doc.end = dice.choice(ENDS)


def other_quotes(doc: NcuDoc, dice: Random) -> None:
    doc.quoting = csv.QUOTE_MINIMAL


def other_encoding(doc: NcuDoc, dice: Random) -> None:
    doc.encoding, doc.mark = dice.choice(("utf-16-le", "utf-16-be", "utf-8")), True


def no_durations(doc: NcuDoc, dice: Random) -> None:
    """Times and counts of zero."""
    doc.everything = True
    for at, name in enumerate(doc.header):
        if "duration" in name.lower() or "__time" in name or name == "Metric Value" or dice.random() < 0.1:
            for record in doc.records:
                if at < len(record) and name not in ("ID", "Process ID", "Kernel Name"):
                    record[at] = "0"


def packed(doc: NcuDoc, dice: Random) -> None:
    doc.packed = True


def _bytewise(change: Any) -> Any:
    def changed(doc: NcuDoc, dice: Random) -> None:
        change(doc.spread(), dice)
        doc.torn = True

    return changed


SHAPED = {
    "odd cell": odd_cell, "odd identity": odd_identity, "fields too many or few": cell_count,
    "record removed": removed_record, "record twice": doubled_record, "other order": shuffled,
    "column renamed": other_column, "column gone": removed_column, "odd units": odd_units,
    "lines around": lines_around, "second table": second_table, "other line ends": other_ends,
    "other quotes": other_quotes, "other encoding": other_encoding, "zeros": no_durations, "packed": packed,
}  # fmt: skip
TORN = {name: _bytewise(change) for name, change in BYTEWISE.items()}


class Ncu:
    """CSV of Nsight Compute."""

    name = "ncu"
    files = (
        ("ncu/scan_metrics_raw.csv.gz", 8),
        ("ncu/vim_full_raw.csv.gz", 3),
        ("ops/ops.ncu.csv.gz", 12),
        ("ncu/vim_full_details.csv.gz", 150),
        ("ncu/vim_basic_stdout_details.csv.gz", 120),
    )
    shaped = SHAPED
    bytewise = TORN

    def __init__(self) -> None:
        self.bases: list[NcuBase] = []

    def prepare(self, folder: Path) -> None:
        from sample_runs import recorded

        for name, count in self.files:
            base = _cut(gzip.decompress(recorded(name).read_bytes()).decode(), count)
            trace = _opened(base.doc().write(folder))
            base.counters = same.rows(trace.counters, ROW)
            base.total, base.launches, base.notes = trace.source.events_total, trace.device.height, len(trace.notes)
            self.bases.append(base)

    def base(self, dice: Random) -> NcuDoc:
        return dice.choice(self.bases).doc()

    def examine(self, doc: NcuDoc, plan: Plan, folder: Path) -> str:
        from tracetui.parsers import TraceError, open_path

        path = doc.write(folder)
        try:
            run = open_path(path, cache=False)
        except TraceError as error:
            road.one_line(str(error))
            if not (doc.everything or doc.torn):
                raise Find(f"refused, though most of it is intact: {error}") from error
            return REFUSED
        trace = run.main
        if trace.info.kind == "ncu":
            same.counts(trace)
            same.ids(trace)
            _compare(doc, trace)
        elif not doc.torn:
            raise Find(f"read as {trace.info.kind}")
        road.follow(run, plan, folder)
        return NOTED if trace.notes or run.warnings else READ


def _opened(path: Path) -> Any:
    from tracetui.parsers import open_path

    return open_path(path, cache=False).main


def _cut(text: str, count: int) -> NcuBase:
    """The first records of a table."""
    lines = text.split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith('"ID"'))
    rows = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    units = rows[1] if rows[1][0] == "" else None
    records = rows[1 + (units is not None) :]
    return NcuBase(lines[:start][-4:], rows[0], units, records[:count])


def _compare(doc: NcuDoc, trace: Any) -> None:
    if doc.everything:
        return
    spans = doc.spread()
    spoilt = {*doc.touched, *spans.spoilt()} & set(range(len(doc.records)))
    if spans.outside and doc.torn:
        return
    # of a table with one metric per column, a record is as many counters as there are columns
    each = 2 if "Metric Name" in doc.header else len(doc.header)
    intact = len(doc.records) - len(spoilt)
    allowed = each * (len(doc.base.records) - intact)
    same.kept(doc.base.counters, same.rows(trace.counters, ROW), allowed, "counters")
    if (
        doc.counted
        and not doc.torn
        and not doc.touched
        and len(doc.records) == len(doc.base.records)
        and not doc.between
        and trace.source.events_total != doc.base.total
    ):
        raise Find(f"the file holds {doc.base.total} records, {trace.source.events_total} are counted")
