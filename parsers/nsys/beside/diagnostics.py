"""What Nsight Systems itself warns of, with the process that each warning is about."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tracetui.parsers.names.people import without_users
from tracetui.parsers.nsys.privacy import is_environment
from tracetui.parsers.nsys.tables import PID_BITS, PID_MASK

if TYPE_CHECKING:
    from collections.abc import Collection

    from tracetui.parsers.nsys.metadata import SmallTables
    from tracetui.parsers.tally import Tally

SEVERITIES = {2: "warning", 3: "error"}
LENGTH = 400
MOST = 40
"""How many different messages are kept."""
ELSEWHERE = ", of which no event is here"
"""The end of a process's name where the warning can't be about what was recorded."""


def say(tables: SmallTables, names: dict[int, str], recorded: Collection[int], tally: Tally) -> None:
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
        said = " ".join(without_users(text[:LENGTH]).split())
        counts[severity, _process(row["globalPid"]), said] += 1
    concerned = {process for _, process, _ in counts if process is not None} | set(recorded)
    for (severity, process, said), count in sorted(counts.items(), key=lambda item: -item[0][0])[:MOST]:
        whose = "" if process is None or len(concerned) < 2 else _of(process, names, recorded)
        tally.missing(f"Nsight Systems {SEVERITIES[severity]}{whose}: {said}", count)


def _process(number: int | None) -> int | None:
    """The process's number; None for a message about the whole recording."""
    return None if number is None or number < 0 else (number >> PID_BITS) & PID_MASK or None


def _of(process: int, names: dict[int, str], recorded: Collection[int]) -> str:
    name = names.get(process, "").rsplit("/", 1)[-1]
    own = f" of process {process}{f' ({name})' if name else ''}"
    return own if process in recorded else own + ELSEWHERE
