"""Names the tables of events that the frames don't hold, and what Nsight Systems itself warns of."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection

from tracetui.parsers.names.people import without_users
from tracetui.parsers.nsys.database import Database, Table, numbers, quoted
from tracetui.parsers.nsys.metadata import SmallTables
from tracetui.parsers.nsys.privacy import is_environment
from tracetui.parsers.nsys.tables import PID_BITS, PID_MASK
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


def say_what_is_unread(database: Database, read: Collection[str], context: str, tally: Tally) -> None:
    """Counts the rows of every table of events that is not among those that are `read`, nor matches `context`."""
    connection = database.connect()
    try:
        for name, table in sorted(database.tables.items()):
            if name in read or not _holds_events(table) or (context and re.match(context, name)):
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
    try:
        # counting reads the whole table, so only where the program gave the rows their numbers, with gaps maybe
        if table.rowid is None or not OWN_NUMBERS.isdisjoint(table.columns):
            return int(connection.execute(f"SELECT count(*) FROM {quoted(table.name)}").fetchone()[0])
        low, high = numbers(connection, table)
    except sqlite3.Error:
        return 0
    return 0 if low is None or high is None else high - low + 1


SEVERITIES = {2: "warning", 3: "error"}
MOST_CHARACTERS = 400
MOST_MESSAGES = 40
"""How many different messages are kept."""
ELSEWHERE = ", of which no event is here"
"""The end of a process's name where the warning can't be about what was recorded."""


def say_warnings(tables: SmallTables, names: dict[int, str], recorded: Collection[int], tally: Tally) -> None:
    """Counts the warnings and errors in the file, each message of each process once.

    Args:
        tables: reads them.
        names: the processes' names by number.
        recorded: the processes with events. If there is only one, and no warning of another, none is named.
        tally: what is told.
    """
    counts: Counter[tuple[int, int | None, str]] = Counter()
    for row in tables.rows("DIAGNOSTIC_EVENT", "severity", "globalPid", texts=("text",)):
        severity, text = row["severity"], row["text"]
        if severity not in SEVERITIES or not text or is_environment(text):
            continue
        said = " ".join(without_users(text[:MOST_CHARACTERS]).split())
        counts[severity, _process(row["globalPid"]), said] += 1
    concerned = {process for _, process, _ in counts if process is not None} | set(recorded)
    for (severity, process, said), count in sorted(counts.items(), key=lambda item: -item[0][0])[:MOST_MESSAGES]:
        whose = "" if process is None or len(concerned) < 2 else _of(process, names, recorded)
        tally.missing(f"Nsight Systems {SEVERITIES[severity]}{whose}: {said}", count)


def _process(number: int | None) -> int | None:
    """The process's number; None for a message about the whole recording."""
    return None if number is None or number < 0 else (number >> PID_BITS) & PID_MASK or None


def _of(process: int, names: dict[int, str], recorded: Collection[int]) -> str:
    name = names.get(process, "").rsplit("/", 1)[-1]
    own = f" of process {process}{f' ({name})' if name else ''}"
    return own if process in recorded else own + ELSEWHERE
