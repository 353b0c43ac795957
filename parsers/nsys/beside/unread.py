"""Names the tables of events that the frames don't hold, so that nothing of a file is left out unsaid."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

from tracetui.parsers.nsys.database import quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    from tracetui.parsers.nsys.database import Database, Table
    from tracetui.parsers.tally import Tally
    from tracetui.parsers.trace import Trace

TIMES = frozenset({"start", "timestamp"})
"""A table with a column of one of these names holds events."""
TIMELESS = "CUPTI_ACTIVITY_KIND_"
"""Tables whose names begin so hold events, with times or without."""
OWN_NUMBERS = frozenset({"id", "genericEventId"})
"""Primary keys, which stand for SQLite's own row numbers."""
CONTEXT = re.compile(r"(META_DATA|EXPORT_META|TARGET_INFO|ANALYSIS|ENUM|PROCESSES$|DIAGNOSTIC_EVENT$)")
"""What says something of the recording is no event, even if it has a time."""
THREADS, OS_CALLS, SAMPLES, UNIFIED = "threads", "os_calls", "gpu_samples", "unified_memory"
READ_BY = {
    "SCHED_EVENTS": THREADS,
    "COMPOSITE_EVENTS": THREADS,
    "GPU_METRICS": SAMPLES,
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": UNIFIED,
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": UNIFIED,
}
"""The section of the report that reads a table when it is asked for."""
_SAID = re.compile(r"events of the table (\w+), which")


def say_what_is_unread(database: Database, read: Collection[str], tally: Tally) -> None:
    """Counts the rows of every table of events that is not among those that are `read`."""
    connection = database.connect()
    try:
        for name, table in sorted(database.tables.items()):
            if name in read or not _holds_events(table):
                continue
            section = READ_BY.get(name)
            how = f"--section {section} reads when asked" if section else "is not read"
            tally.skipped(f"events of the table {name}, which {how}", _rows(connection, table))
    finally:
        connection.close()


def held(trace: Trace) -> frozenset[str]:
    """The tables of the trace's file that have events which its frames don't hold."""
    found = (_SAID.match(note.reason) for note in trace.notes if note.kind == "skipped")
    return frozenset(match[1] for match in found if match is not None)


def _holds_events(table: Table) -> bool:
    if CONTEXT.match(table.name):
        return False
    return table.name.startswith(TIMELESS) or not TIMES.isdisjoint(table.columns)


def _rows(connection: sqlite3.Connection, table: Table) -> int:
    """How many rows a table has, 0 where that can't be found out."""
    name = quoted(table.name)
    try:
        # counting reads the whole table, so only where the program gave the rows their numbers, with gaps maybe
        if table.rowid is None or not OWN_NUMBERS.isdisjoint(table.columns):
            return int(connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0])
        low = connection.execute(f"SELECT min({table.rowid}) FROM {name}").fetchone()[0]
        high = connection.execute(f"SELECT max({table.rowid}) FROM {name}").fetchone()[0]
        return 0 if low is None else int(high) - int(low) + 1
    except sqlite3.Error:
        return 0
