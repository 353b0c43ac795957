"""Valid files that say the same as a recording in other words: columns, rows, types, numbers; one answer is due.

Each step rewrites a file as another version of its tool, or another exporter, might have written it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path
from random import Random
from typing import Any

from fuzz import same
from fuzz.case import READ, Find, Plan
from fuzz.spelled import Writer
from tracetui.parsers import Trace

Answer = dict[str, Any]
OF_HOST = ("parent", "forward", "launch", "operator", "module", "forward_module", "range")
"""Columns that point at rows of the host's frame."""
FRAMES = ("steps", "host", "device", "memory", "counters", "collectives")
EXTRA = "another"
"""What added columns, tables and metrics are called."""


def answer(trace: Trace) -> Answer:
    """All that a file says: the rows of the frames in any order, what they point at by its start, and the context."""
    import polars as pl

    from tracetui.parsers.chrome import layout

    start = trace.host["start"]
    found: Answer = {}
    for name in FRAMES:
        frame = getattr(trace, name)
        places = [column for column in OF_HOST if column in frame.columns]
        frame = frame.with_columns(start.gather(frame[column].cast(pl.Int64)).alias(column) for column in places)
        if name == "counters":
            names = trace.device["name"].cast(pl.String)
            frame = frame.with_columns(device_row=names.gather(frame["device_row"].cast(pl.Int64)))
            frame = frame.filter(~pl.col("metric").cast(pl.String).str.starts_with(EXTRA))
        left = {"offset", "row", "host", "device_row" if name == "collectives" else "", "part_of", "depth"}
        found[name] = same.rows(frame, [column for column in frame.columns if column not in left])
    found |= {f"info.{one.name}": getattr(trace.info, one.name) for one in fields(trace.info)}
    found["info.captured"] = sorted(trace.info.captured)
    notes = [note for note in trace.notes if note.reason != layout.TWICE]
    found["notes"] = sorted((note.kind, note.reason, note.count) for note in notes)
    found["events"] = trace.source.events_parsed
    return found


def hold(expected: Answer, found: Answer) -> None:
    """Raises a find where the answer is another."""
    for name, value in expected.items():
        if found[name] == value:
            continue
        if name in FRAMES:
            gone, new = value - found[name], found[name] - value
            if not _close(gone, new):
                raise Find(f"{name}: {gone.total()} rows differ: {next(iter(gone), None)!r:.400} / "
                           f"{next(iter(new), None)!r:.400}")  # fmt: skip
        elif name != "events":
            raise Find(f"{name} differ: {value!r:.500} / {found[name]!r:.500}")


def _close(gone: Counter[tuple[Any, ...]], new: Counter[tuple[Any, ...]]) -> bool:
    """Whether rows differ in the last digit of floats only: 41.28 µs and 41,280 ns are one number."""
    rounded = [sorted(map(str, (_rounded(row) for row in rows.elements()))) for rows in (gone, new)]
    return rounded[0] == rounded[1]


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(f"{value:.10g}" if isinstance(value, float) else value for value in row)


@dataclass
class Doc:
    """A recording with the rewritings that wait for it, and what is due."""

    base: Any
    due: Answer
    write_as: Callable[[Doc, Path], Path]
    steps: list[tuple[str, Random]] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        return self.write_as(self, folder)


def _later(name: str) -> Callable[[Doc, Random], None]:
    def changed(doc: Doc, dice: Random) -> None:
        doc.steps.append((name, dice))

    return changed


class Equivalent:
    """A format of which only valid, equivalent files are made."""

    name: str
    bytewise: dict[str, Any] = {}  # noqa: RUF012  the protocol's

    def __init__(self) -> None:
        self.bases: list[tuple[Any, Answer]] = []

    def contents(self, folder: Path) -> Sequence[Any]:
        """The recordings to rewrite."""
        raise NotImplementedError

    def written(self, doc: Doc, folder: Path) -> Path:
        """Writes a recording as its steps say."""
        raise NotImplementedError

    def prepare(self, folder: Path) -> None:
        for content in self.contents(folder):
            path = Doc(content, {}, self.written).write(folder)
            self.bases.append((content, self.said(path)))

    def said(self, path: Path) -> Answer:
        """What the program reads."""
        return answer(self._opened(path))

    def base(self, dice: Random) -> Doc:
        content, due = dice.choice(self.bases)
        return Doc(content, due, self.written)

    def examine(self, doc: Doc, plan: Plan, folder: Path) -> str:
        hold(doc.due, self.said(doc.write(folder)))
        return READ

    @staticmethod
    def _opened(path: Path) -> Trace:
        from tracetui.parsers import TraceError, open_path

        try:
            return open_path(path, cache=False).main
        except TraceError as error:
            raise Find(f"refused, though it is valid: {error}") from error


def _packed(path: Path, content: bytes, steps: Sequence[tuple[str, Random]]) -> Path:
    """Writes it, perhaps as gzip: whole, or in parts as bgzip and appending writers make it, with an empty last one."""
    if (dice := dict(steps).get("packed")) is not None:
        size = dice.choice((len(content) + 1, 65_280, dice.randrange(1000, 9000)))
        parts = [content[at : at + size] for at in range(0, len(content), size)]
        content = b"".join(gzip.compress(part, 1) for part in (parts if size > len(content) else [*parts, b""]))
    path.write_bytes(content)
    return path


class EquivalentChrome(Equivalent):
    """Chrome traces: other spellings of the same JSON, and of the same events."""

    name = "equivalent chrome"
    shaped = {  # noqa: RUF012
        name: _later(name)
        for name in ("spelled otherwise", "halves", "order", "metadata again", "mark", "ends", "packed")
    }

    def contents(self, folder: Path) -> Sequence[Any]:
        from fuzz.chrome import Chrome

        chrome = Chrome()
        chrome.prepare(folder)
        return [{**base.header, "traceEvents": base.events} for base in chrome.bases]

    def written(self, doc: Doc, folder: Path) -> Path:
        steps = dict(doc.steps)
        events = doc.base["traceEvents"]
        if dice := steps.get("halves"):
            events = _halves(events, dice)
        if dice := steps.get("metadata again"):
            events = [*events, *(event for event in events if event.get("ph") == "M" and dice.random() < 0.5)]
        if dice := steps.get("order"):
            events = _in_other_order(events, dice)
        document = {**doc.base, "traceEvents": events}
        dice = steps.get("spelled otherwise")
        text = Writer(dice.randrange(1 << 32)).whole(document) if dice else json.dumps(document, indent=1)
        if "ends" in steps:  # within strings they are escaped
            text = text.replace("\n", "\r\n")
        return _packed(folder / "in.json", text.encode("utf-8-sig" if "mark" in steps else "utf-8"), doc.steps)


def _halves(events: list[dict[str, Any]], dice: Random) -> list[dict[str, Any]]:
    """Some events as a begin and an end, in order of time: of each thread those that lie apart from each other."""
    until: dict[tuple[str, str], Decimal] = {}
    chosen: dict[int, list[dict[str, Any]]] = {}
    for event in sorted((event for event in events if event.get("ph") == "X" and event.get("dur")), key=_start):
        thread = str(event.get("pid")), str(event.get("tid"))
        start = Decimal(str(event["ts"]))
        end = start + Decimal(str(event["dur"]))
        # a double of microseconds since 1970 does not hold all nanoseconds
        if dice.random() < 0.4 and start > until.get(thread, -1) and Decimal(str(float(end))) == end:
            until[thread] = end
            begin = {key: value for key, value in event.items() if key != "dur"}
            last = {"ph": "E", "pid": event.get("pid"), "tid": event.get("tid"), "name": event.get("name")}
            chosen[id(event)] = [{**begin, "ph": "B"}, {**last, "ts": float(end)}]
    return [half for event in events for half in chosen.get(id(event), [event])]


def _start(event: dict[str, Any]) -> float:
    return float(event["ts"])


def _in_other_order(events: list[dict[str, Any]], dice: Random) -> list[dict[str, Any]]:
    """The events in any order, those of one thread and moment in the order that they had."""
    where = list(range(len(events)))
    dice.shuffle(where)
    same_moment: dict[tuple[str, str, str], list[int]] = {}
    for at, event in enumerate(events):
        key = str(event.get("pid")), str(event.get("tid")), str(event.get("ts"))
        same_moment.setdefault(key, []).append(at)
    for places in same_moment.values():
        for at, place in zip(places, sorted(where[at] for at in places), strict=True):
            where[at] = place
    return [event for _, event in sorted(zip(where, events, strict=True), key=lambda pair: pair[0])]


@dataclass
class Table:
    """A table of a database."""

    name: str
    columns: list[tuple[str, str]]
    """Name and declared type."""
    rows: list[tuple[Any, ...]]


class EquivalentNsys(Equivalent):
    """Exports of Nsight Systems: other columns, types, keys, order of rows, tables and pages."""

    name = "equivalent nsys"
    files = ("nsys/graph_node.sqlite.gz", "nsys/graph_whole.sqlite.gz", "ops/ops.sqlite.gz")
    shaped = {  # noqa: RUF012
        name: _later(name)
        for name in ("order of columns", "types", "keys", "order of rows", "more columns", "more tables",
                     "fewer columns", "fewer tables", "pages", "indexes", "packed")
    }  # fmt: skip

    def contents(self, folder: Path) -> Sequence[Any]:
        from nsys_file import NsysFile
        from sample_runs import recorded

        from fuzz.nsys import _made

        found = []
        for file in (*self.files, None):
            path = folder / "base.sqlite"
            path.unlink(missing_ok=True)
            if file is None:
                _made(NsysFile()).write(path)
            else:
                path.write_bytes(gzip.decompress(recorded(file).read_bytes()))
            with closing(sqlite3.connect(path)) as connection:
                names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
                found.append([_table(connection, name) for name in names])
        return found

    def written(self, doc: Doc, folder: Path) -> Path:
        steps = dict(doc.steps)
        tables = [_rewritten(table, steps) for table in doc.base]
        if dice := steps.get("fewer tables"):  # that are empty, or say what codes are called
            tables = [table for table in tables if dice.random() < 0.5 or (table.rows and table.name[:5] != "ENUM_")]
        if dice := steps.get("more tables"):
            for number in range(dice.randrange(1, 4)):
                tables.append(Table(f"{EXTRA}{number}", [("key", "INTEGER"), ("text", "TEXT")], [(1, "x")] * number))
            dice.shuffle(tables)
        path = folder / "in.sqlite"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            if dice := steps.get("pages"):
                connection.execute(f"PRAGMA page_size={dice.choice((512, 1024, 8192, 65536))}")
                connection.execute(f"PRAGMA auto_vacuum={dice.choice((0, 1, 2))}")
            connection.execute("BEGIN")
            for table in tables:
                said = ", ".join(f'"{name}" {kind}' for name, kind in table.columns)
                connection.execute(f'CREATE TABLE "{table.name}" ({said})')
                marks = ",".join("?" * len(table.columns))
                connection.executemany(f'INSERT INTO "{table.name}" VALUES ({marks})', table.rows)
                if (dice := steps.get("indexes")) and dice.random() < 0.3:
                    column = dice.choice(table.columns)[0]
                    connection.execute(f'CREATE INDEX "of_{table.name}" ON "{table.name}" ("{column}")')
            connection.execute("COMMIT")
        return _packed(path, path.read_bytes(), doc.steps)


def _table(connection: sqlite3.Connection, name: str) -> Table:
    columns = [row[1:3] for row in connection.execute(f'PRAGMA table_info("{name}")')]
    return Table(name, columns, connection.execute(f'SELECT * FROM "{name}"').fetchall())


def _rewritten(table: Table, steps: dict[str, Random]) -> Table:
    columns, rows = list(table.columns), list(table.rows)
    if dice := steps.get("types"):
        others = {"INTEGER": ("INT", "BIGINT", "", "NUMERIC"), "TEXT": ("VARCHAR(255)", "CLOB", "")}
        columns = [(name, dice.choice((kind, *others.get(kind, ())))) for name, kind in columns]
    if dice := steps.get("order of rows"):
        dice.shuffle(rows)
    if dice := steps.get("fewer columns"):  # without a single value
        kept = [at for at in range(len(columns)) if dice.random() < 0.3 or any(row[at] is not None for row in rows)]
        if rows and kept:
            columns, rows = [columns[at] for at in kept], [tuple(row[at] for at in kept) for row in rows]
    if dice := steps.get("more columns"):
        for number in range(dice.randrange(3)):
            columns.append((f"{EXTRA}{number}", dice.choice(("INTEGER", "TEXT", ""))))
            rows = [(*row, dice.choice((None, 7, "x"))) for row in rows]
    if dice := steps.get("order of columns"):
        order = list(range(len(columns)))
        dice.shuffle(order)
        columns, rows = [columns[at] for at in order], [tuple(row[at] for at in order) for row in rows]
    if dice := steps.get("keys"):
        keys = [at for at, (name, kind) in enumerate(columns) if name == "id" and kind == "INTEGER"]
        if keys and len({row[keys[0]] for row in rows}) == len(rows) and dice.random() < 0.7:
            columns[keys[0]] = ("id", "INTEGER PRIMARY KEY")
    return Table(table.name, columns, rows)


class EquivalentNcu(Equivalent):
    """Tables of Nsight Compute: other columns, order of launches, quotes, numbers, units, ends of lines, encodings."""

    name = "equivalent ncu"
    shaped = {  # noqa: RUF012
        name: _later(name)
        for name in ("order of columns", "order of rows", "more columns", "quotes", "numbers", "units", "ends",
                     "encoding", "log", "packed")
    }  # fmt: skip

    def contents(self, folder: Path) -> Sequence[Any]:
        from sample_runs import recorded

        from fuzz.ncu import Ncu, _cut

        return [_cut(gzip.decompress(recorded(name).read_bytes()).decode(), count) for name, count in Ncu.files]

    def written(self, doc: Doc, folder: Path) -> Path:
        steps, base = dict(doc.steps), doc.base
        wide = base.units is not None
        header, units = list(base.header), list(base.units or ())
        records = [list(record) for record in base.records]
        fixed = header.index("Metric Name") if not wide else next(at for at, unit in enumerate(units) if unit)
        if dice := steps.get("numbers"):
            for record in records:
                for at in [header.index("Metric Value")] if not wide else range(fixed, len(record)):
                    record[at] = _spelled(record[at], dice)
        if wide and (dice := steps.get("units")):
            for at in range(fixed, len(units)):
                _scaled(units, records, at, dice)
        if wide and (dice := steps.get("more columns")):
            for number in range(dice.randrange(1, 3)):
                header.append(f"{EXTRA}__count.sum{number}")
                units.append("inst")
                records = [[*record, str(dice.randrange(99))] for record in records]
        if dice := steps.get("order of rows"):
            records = _reordered(records, dice, header.index("ID"))
        rows = [header, *([units] if wide else []), *records]
        if dice := steps.get("order of columns"):
            order = [*range(1, len(header))]
            dice.shuffle(order)
            order.sort(key=lambda at: "encoding" in steps and header[at] != "Kernel Name")  # told by 256 KiB of a file
            # a record of the details page may be shorter than the header
            rows = [[row[0], *((row[at] if at < len(row) else "") for at in order)] for row in rows]
        out = io.StringIO()
        quoting = steps["quotes"].choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL)) if "quotes" in steps else csv.QUOTE_ALL
        end = steps["ends"].choice(("\n", "\r\n")) if "ends" in steps else "\n"
        if "log" in steps:
            out.write(end.join(("==PROF== Connected to process 77 (/usr/bin/python3)", "epoch 1", "")))
        csv.writer(out, quoting=quoting, lineterminator=end).writerows(rows)
        mark = steps["encoding"].choice(("utf-8-sig", "utf-16")) if "encoding" in steps else "utf-8"
        return _packed(folder / "in.csv", out.getvalue().encode(mark), doc.steps)


class EquivalentManifest(Equivalent):
    """run.json: other spellings of the same JSON."""

    name = "equivalent run.json"
    shaped = {name: _later(name) for name in ("spelled otherwise", "mark", "ends")}  # noqa: RUF012

    def contents(self, folder: Path) -> Sequence[Any]:
        from fuzz.manifest import Manifest

        form = Manifest()
        form.prepare(folder)
        return [base.value for base in form.bases]

    def written(self, doc: Doc, folder: Path) -> Path:
        steps = dict(doc.steps)
        dice = steps.get("spelled otherwise")
        text = Writer(dice.randrange(1 << 32)).value(doc.base) if dice else json.dumps(doc.base, indent=1)
        if "ends" in steps:
            text = text.replace("\n", "\r\n")
        (folder / "run.json").write_bytes(text.encode("utf-8-sig" if "mark" in steps else "utf-8"))
        return folder

    def said(self, path: Path) -> Answer:
        from fuzz.manifest import leaves
        from tracetui.parsers.runs import manifest

        known = manifest.load(path)
        if known is None:
            raise Find("run.json was not taken for one")
        raw = {".".join(place): value for place, value in leaves(known).items()}
        return {place: _decoded(value) for place, value in raw.items()}


def _decoded(value: Any) -> Any:
    """What `leaves` has of a part that the program keeps as it stands in the file, for later."""
    try:
        return json.loads(" ".join(value))
    except (TypeError, ValueError):
        return value


class EquivalentSnapshot(Equivalent):
    """Memory snapshots: other protocols, order of keys, shared or repeated parts."""

    name = "equivalent snapshot"
    shaped = {name: _later(name) for name in ("protocol", "order of keys", "repeated", "packed")}  # noqa: RUF012

    def contents(self, folder: Path) -> Sequence[Any]:
        from fuzz.memory import Memory

        form = Memory()
        form.prepare(folder)
        return [pickle.loads(base.content) for base in form.bases]

    def written(self, doc: Doc, folder: Path) -> Path:
        steps, value = dict(doc.steps), doc.base
        if dice := steps.get("order of keys"):
            value = _shuffled(value, dice)
        out = io.BytesIO()
        dice = steps.get("protocol")
        pickler = pickle.Pickler(out, dice.randrange(2, 6) if dice else 4)
        pickler.fast = "repeated" in steps  # nothing is remembered, so that what is shared is written anew
        pickler.dump(value)
        return _packed(folder / "in.pickle", out.getvalue(), doc.steps)


def _shuffled(value: Any, dice: Random) -> Any:
    """The same with the keys of each object in another order."""
    if isinstance(value, list):
        return [_shuffled(one, dice) for one in value]
    if not isinstance(value, dict):
        return value
    items = [(key, _shuffled(one, dice)) for key, one in value.items()]
    dice.shuffle(items)
    return dict(items)


def _reordered(records: list[list[str]], dice: Random, key: int) -> list[list[str]]:
    """The launches in another order, each with its records as they are."""
    launches: dict[str, list[list[str]]] = {}
    for record in records:
        launches.setdefault(record[key], []).append(record)
    order = list(launches)
    dice.shuffle(order)
    return [record for name in order for record in launches[name]]


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _spelled(text: str, dice: Random) -> str:
    """A number with or without separators of thousands, zeros at its end, or an exponent."""
    number = _number(text)
    if number is None:
        return text
    plain = f"{number:f}"
    zeros = f"{plain}0" if "." in plain else f"{plain}.00"
    return dice.choice((text, plain, f"{number:,f}", zeros, f"{number:E}"))


def _scaled(units: list[str], records: list[list[str]], at: int, dice: Random) -> None:
    """Another prefix of a unit in bytes or seconds."""
    for names in (("byte", "Kbyte", "Mbyte"), ("ns", "us", "ms"), ("nsecond", "usecond", "msecond")):
        if units[at] in names:
            numbers = [_number(record[at]) for record in records]
            other = dice.choice(names)
            if any(number is None for number in numbers):
                return
            steps = names.index(units[at]) - names.index(other)
            for record, number in zip(records, numbers, strict=True):
                record[at] = f"{number.scaleb(3 * steps):f}" if number is not None else record[at]
            units[at] = other
