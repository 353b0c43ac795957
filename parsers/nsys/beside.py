"""Opens the file behind a trace once more, to read what the frames don't hold, piece by piece."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager

import polars as pl
from msgspec import Struct

from tracetui.parsers.errors import TraceError
from tracetui.parsers.nsys import metadata, names, privacy, tables
from tracetui.parsers.nsys.database import Database, Query, open_database
from tracetui.parsers.nsys.dialects import NSYS
from tracetui.parsers.nsys.scan import TableReader, stretches
from tracetui.parsers.progress import Watch
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import Trace

REPORTS = (".nsys-rep", ".qdrep")
"""Files that were exported into a folder that is gone."""
ADDRESS = "0x"


class Beside(Struct, frozen=True):
    """The tables of an export, for reading."""

    database: Database
    reader: TableReader
    connection: sqlite3.Connection

    def pieces(self, table: str, *integers: str) -> Iterator[pl.DataFrame]:
        """The table's rows, some at a time: all these columns, null where the file lacks one."""
        found = self.database.tables.get(table)
        if found is None:
            return
        query = Query.of(found, *integers)
        if not query.columns:
            return
        lacking = [pl.lit(None, pl.Int64).alias(name) for name in integers if name not in query.columns]
        for first, last in stretches(self.database, self.connection, found):
            yield self.reader.read(query, first, last).with_columns(*lacking).select(integers)

    def whole(self, table: str, *integers: str) -> pl.DataFrame:
        """All rows of a table."""
        return pl.concat([pl.DataFrame(schema=dict.fromkeys(integers, pl.Int64)), *self.pieces(table, *integers)])

    def small(self) -> metadata.SmallTables:
        """Reads small tables, with their texts."""
        return metadata.SmallTables(self.database, self.connection, Tally())

    def metadata(self) -> metadata.Metadata:
        """What the file says about the recording."""
        return metadata.read(self.small(), NSYS)

    def texts(self, ids: Iterable[int | None]) -> dict[int, str]:
        """The strings of these numbers, without what must not be shown."""
        wanted = {number for number in ids if number is not None}
        found = names.Strings(self.reader, wanted, NSYS.named(self.database))
        return {number: privacy.shown(text) for number in wanted if (text := found.text(number))}

    def thread_names(self) -> dict[int, str]:
        """The name of each thread, by its global number; the program's own name where there are several."""
        best: dict[int, tuple[int, int]] = {}
        for thread, priority, name in self.metadata().thread_names:
            best[thread] = max(best.get(thread, (-1, 0)), (priority, name))
        texts = self.texts(name for _, name in best.values())
        return {thread: texts[name] for thread, (_, name) in best.items() if name in texts}

    def process_names(self) -> dict[int, str]:
        """The program of each process, without its folder."""
        found = self.metadata().processes
        return {process: name.rsplit("/", 1)[-1] for process, name in found}


@contextmanager
def beside(trace: Trace) -> Iterator[Beside | None]:
    """The tables of the trace's file; None if it is no export of Nsight Systems, or can't be opened any more."""
    path = trace.source.path
    if trace.info.kind != "nsys" or path.suffix in REPORTS or not path.is_file():
        yield None
        return
    tally = Tally()
    with ExitStack() as stack:
        try:
            database = stack.enter_context(open_database(path, tally, Watch()))
        except (TraceError, OSError):
            yield None
            return
        reader = stack.enter_context(closing(TableReader(database, tally)))
        connection = stack.enter_context(closing(database.connect()))
        yield Beside(database, reader, connection)


def process_of(thread: int) -> int:
    """The process of a global thread number."""
    return (thread >> tables.PID_BITS) & tables.PID_MASK


def number_of(thread: int) -> int:
    """The system's number of a thread."""
    return thread & tables.TID_MASK


def function(symbol: str | None, module: str | None) -> str:
    """A function as people know it: an address without a name says only which library it is in."""
    if symbol and not symbol.startswith(ADDRESS):
        return symbol
    found = library(module)
    return f"[{found}]" if found else "(unknown)"


def library(module: str | None) -> str | None:
    """A library or program without its folder; None for one that nsys did not find."""
    name = (module or "").rsplit("/", 1)[-1]
    return None if not name or name.startswith("[") else name
