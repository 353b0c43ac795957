"""The slow path: fills the same columns from events that were decoded one by one (`pieces`)."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracetui.parsers import categories, schema
from tracetui.parsers.chrome import classify, columns, forms
from tracetui.parsers.chrome.collectives import COLLECTIVE, described
from tracetui.parsers.chrome.columns import NULL, OPTIONAL, Columns
from tracetui.parsers.chrome.pieces import Again, json_text
from tracetui.parsers.chrome.scan import (
    ALIASES,
    CONCRETE,
    DEVICE_INTS,
    DEVICE_REALS,
    HOST_INTS,
    HOST_NAMES,
    HOST_TEXTS,
    LONGEST,
    MEMORY_INTS,
    TIME_LIMIT,
    XLA_TEXTS,
)
from tracetui.parsers.tally import Tally

Event = dict[str, Any]
Row = dict[str, Any]
_Half = tuple[int, int, Event]
"""Time, place in the file and text of a begin or end."""

FLOAT_DECIMALS = 8
"""Only floats printed in full have this many decimals or more; six decimals of a microsecond are meaningful."""
_PICOSECOND = Decimal("1e-6")
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
_DIGITS = re.compile(r"-?\d+")


DEPTH = 64
"""How many open begins, the innermost, are compared with the name of an end."""
_ASYNC = frozenset("bneSTF")
"""Begins, instants and ends that are joined by an id; the capital ones are an older form."""
PHASES = frozenset("XBEMCiIstfpPNODRcvV(),=") | _ASYNC
"""All that Chrome's format has, those that it no longer writes too."""


def no_phase(phase: object) -> str | None:
    """Why an event is of no phase that Chrome's format has; None if it is of one."""
    if not isinstance(phase, str):
        return "event without a phase (ph)"
    return None if phase in PHASES else "event of an unknown phase (ph)"


class Collector:
    """Turns decoded events into columns, and keeps what they say about the whole file."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._rows: dict[str, list[Row]] = {name: [] for name in columns.GROUPS}
        self._halves: dict[tuple[str, str], list[_Half]] = {}
        """The begins and ends of each thread."""
        self.metadata: list[Event] = []
        self.window: tuple[int, int] | None = None
        self.parsed = 0
        self.again: tuple[int, Event] | None = None
        """Where the last other list of events begins, and the keys before it."""

    def collect(self, events: Iterable[tuple[int, Event]]) -> None:
        """Adds events, each with its position in the file."""
        for position, event in events:
            self.add(position, event)

    def add(self, position: int, event: Event) -> None:
        """Adds one event."""
        if isinstance(event, Again):
            self.again = position, event.between
        if not event:  # JAX puts an empty one last, so that every event can end in a comma
            return
        phase = event.get("ph")
        if (why := no_phase(phase)) is not None:
            self._tally.skipped(why, 1, _shown(event))
            return
        self.parsed += 1
        if phase == "M":
            self.metadata.append(event)
        elif phase == "X":
            self._complete(position, event)
        elif phase in ("i", "I") and event.get("name") == "[memory]":
            self._memory(event)
        elif phase in ("s", "f") and category_of(event) in ("fwdbwd", "forward_backward"):
            self._flow(event)
        elif phase == "C":
            if (time := self._time(event)) is not None:
                self._samples(event, time, str(event.get("name", "")), NULL)
        elif phase in ("B", "E"):
            if (time := self._time(event)) is not None:
                thread = _said(event.get("pid")), _said(event.get("tid"))
                self._halves.setdefault(thread, []).append((time, position, event))
        elif phase in _ASYNC:
            self._lost("async event (its range may overlap others of its thread)", event)

    def finish(self) -> dict[str, Columns]:
        """All rows as columns, by group; empty groups are left out."""
        while self._halves:
            self._pair(self._halves.popitem()[1])
        return {name: _to_columns(columns.GROUPS[name], rows) for name, rows in self._rows.items() if rows}

    def _lost(self, reason: str, event: Event) -> None:
        self.parsed -= 1
        self._tally.skipped(reason, 1, _shown(event))

    def _time(self, event: Event) -> int | None:
        time = nanoseconds(event.get("ts"))
        if time is None:
            self._lost("event without a usable timestamp", event)
        return time

    def _pair(self, halves: list[_Half]) -> None:
        """Makes complete events of a thread's begins and ends: an end is that of the innermost begin of its name.

        Halves that are not in order of time are sorted, at one moment the ends first; an end that then has no begin yet
        is that of one of its own moment.
        """
        sort = any(before[0] > after[0] for before, after in pairwise(halves))
        if sort:
            halves.sort(key=lambda half: (half[0], half[2]["ph"] == "B"))
        stack: list[_Half] = []
        for _, moment in groupby(halves, key=lambda half: half[0]):
            early = []
            for half in moment:
                if half[2]["ph"] == "B":
                    stack.append(half)
                elif not self._end(stack, half, any_name=not sort):
                    early.append(half)
            for half in early:
                if not sort or not self._end(stack, half, any_name=True):
                    self._lost("end event without a begin", half[2])
        for _, _, event in stack:
            self.parsed -= 1
            self._tally.skipped("begin event without an end", 1, str(event.get("name", "")))

    def _end(self, stack: list[_Half], half: _Half, *, any_name: bool) -> bool:
        """Ends the begin that this end belongs to; returns whether there is one."""
        time, _, event = half
        name = event.get("name", "")
        depths = range(len(stack) - 1, max(len(stack) - DEPTH, 0) - 1, -1)
        at = next((at for at in depths if name in ("", stack[at][2].get("name"))), -1)
        if at < 0 and not (any_name and stack):
            return False
        start, begun_at, begun = stack.pop(at)
        args = {**arguments(begun), **arguments(event)}
        self._complete(begun_at, {**begun, "args": args, "dur": Decimal(time - start) / 1000})
        return True

    def _complete(self, position: int, event: Event) -> None:
        category = category_of(event)
        start = self._time(event)
        if start is None:
            return
        duration = nanoseconds(event.get("dur"))
        if duration is None or duration > LONGEST:
            duration = 0
            if category not in classify.IGNORED_CATEGORIES:
                self._tally.repaired("missing or unreadable duration read as 0", 1, str(event.get("name", "")))
        elif duration < 0:
            duration = 0
            self._tally.repaired("negative duration clamped to 0", 1, str(event.get("name", "")))
        if category in classify.IGNORED_CATEGORIES:
            if category == "trace" and self.window is None:
                self.window = (start, duration)
            elif category == classify.PROFILER_RANGE:
                self._tally.missing(classify.COUNTERS_NOT_KERNELS, 1, str(event.get("name", "")))
                self._counted(start, position, event)
            return
        name = event.get("name")
        if not isinstance(name, str):
            self._tally.repaired("event without a name", 1, _shown(event))
            name = "(no name)" if name is None else str(name)
        args = arguments(event)
        if (exact := forms.rocprof_times(args, start)) is not None:
            start, duration = exact
            args = forms.rocprof_arguments(args)
        row: Row = {"name": name, "start": start, "duration": duration, **self._place(event), "offset": position}
        if COLLECTIVE in args:
            self._rows["collectives"].append(described(position, args, self._int))
        if category in classify.HOST_CATEGORIES:
            row["kind"] = schema.HOST_KINDS.index(classify.HOST_CATEGORIES[category])
            row |= {column: self._int(args, key) for column, key in HOST_INTS.items()}
            row |= {column: json_text(args.get(key)) for column, key in HOST_TEXTS.items()}
            if re.search(schema.SAYING, name):
                row |= {column: json_text(args.get(key)) for column, key in CONCRETE.items()}
            said = {column: args.get(key) for column, key in HOST_NAMES.items()}
            row |= {column: value if value and isinstance(value, str) else None for column, value in said.items()}
            self._rows["host"].append(row)
            return
        row["kind"] = classify.device_kind(category)
        row |= {column: self._int(args, key) for column, key in DEVICE_INTS.items()}
        row |= {column: self._real(args, key) for column, key in DEVICE_REALS.items()}
        row |= {key: _dim3(args.get(key)) for key in ("grid", "block")}
        row |= {column: _plain(args, key) for column, key in XLA_TEXTS.items()}
        row["op_name"] = _plain(args, "name")
        self._rows["device"].append(row)

    def _counted(self, start: int, position: int, event: Event) -> None:
        """Adds a kernel that was run again for its counters, and these; the range's length is no time of the kernel."""
        name, place = str(event.get("name", "")), self._place(event)
        row: Row = {
            "name": name,
            "start": start,
            "duration": NULL,
            **place,
            "offset": position,
            "kind": classify.COUNTED,
        }
        row |= dict.fromkeys(DEVICE_INTS, NULL) | dict.fromkeys(DEVICE_REALS, math.nan)
        self._rows["device"].append(row | {"grid": [-1, -1, -1], "block": [-1, -1, -1]})
        self._samples(event, start, "", position)

    def _memory(self, event: Event) -> None:
        time = self._time(event)
        if time is not None:
            args = arguments(event)
            numbers = {column: self._int(args, key) for column, key in MEMORY_INTS.items()}
            self._rows["memory"].append({"time": time, **self._place(event), **numbers})

    def _flow(self, event: Event) -> None:
        time = self._time(event)
        if time is not None:
            row = {"id": self._int(event, "id"), **self._place(event), "time": time, "begins": event["ph"] == "s"}
            self._rows["flows"].append(row)

    def _samples(self, event: Event, time: int, name: str, counted: int) -> None:
        """Adds the numbers among an event's arguments as counters, of the kernel at this place in the file or none."""
        for series, value in arguments(event).items():
            number = _number(value)
            if number is not None:
                row = {"time": time, "name": name, "series": str(series), "value": float(number), "counted": counted}
                self._rows["counters"].append(row)

    def _place(self, event: Event) -> Row:
        return {"process": identity(event.get("pid")), "thread": identity(event.get("tid"))}

    def _int(self, args: Event, key: str) -> int:
        value = spelled(args, key)
        if value is None or value == "":
            return NULL
        number = _number(value)
        if number is None:
            self._tally.repaired(f"unreadable value of {key!r} read as unknown", 1, str(value))
            return NULL
        whole = int(number)
        if not -(2**63) < whole < 2**63:
            self._tally.repaired("id beyond 63 bits kept modulo 2^64", 1, str(value))
        return _wrapped(whole)

    def _real(self, args: Event, key: str) -> float:
        value = args.get(key)
        if value is None:
            return math.nan
        number = _number(value)
        if number is None:
            self._tally.repaired(f"unreadable value of {key!r} read as unknown", 1, str(value))
            return math.nan
        return float(number)


def nanoseconds(value: Any) -> int | None:
    """Converts microseconds, as a number or a string, to whole nanoseconds; None if unreadable.

    Digits below 1 ns are dropped; a float printed in full is first rounded to picoseconds.
    """
    number = _number(value)
    if number is None or abs(number) * 1000 >= TIME_LIMIT:
        return None
    if int(number.as_tuple().exponent) <= -FLOAT_DECIMALS:
        number = number.quantize(_PICOSECOND, ROUND_HALF_UP)
    return int(number * 1000)


def _number(value: Any) -> Decimal | None:
    """The value as a finite number, or None; rejects what no float can hold, since converting it would take ages."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    if _HEX.fullmatch(text):
        return Decimal(int(text, 16))
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and number.adjusted() <= sys.float_info.max_10_exp else None


def spelled(args: Event, key: str) -> Any:
    """The value of an argument, in the first of its spellings that is there."""
    value = args.get(key)
    return (
        value if value is not None else next((args[o] for o in ALIASES.get(key, ()) if args.get(o) is not None), None)
    )


def whole_number(args: Event, key: str) -> int:
    """A whole number from the arguments; `NULL` if there is none that fits 63 bits."""
    number = _number(spelled(args, key))
    return NULL if number is None or abs(number) >= 2**63 else int(number)


def identity(value: Any) -> int:
    """The number of a process or thread, also if it is in a name such as ``stream 7``."""
    number = _number(value)
    if number is None and isinstance(value, str) and (digits := _DIGITS.search(value)):
        number = _number(digits.group())
    return NULL if number is None or abs(number) >= 2**64 else _wrapped(int(number))


def _said(value: Any) -> str:
    """A process or thread as a text: a number is the same however it is spelled, and names stay apart."""
    number = _number(value)
    return str(value) if number is None else str(int(number))


def _wrapped(number: int) -> int:
    """An id as 64 bits, also one that is written without a sign."""
    return number if -(2**63) < number < 2**63 else (number + 2**63) % 2**64 - 2**63


def category_of(event: Event) -> str:
    """The category in lower case; empty if there is none."""
    category = event.get("cat")
    return category[:1].lower() + category[1:] if isinstance(category, str) else ""


def arguments(event: Event) -> Event:
    """The content of ``args``; empty if that is not an object."""
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _plain(args: Event, key: str) -> str | None:
    """The value as text, printed if it is not text; None if it is empty."""
    value = spelled(args, key)
    return None if value is None or value == "" else str(value)


def _shown(event: Event) -> str:
    """The event as an example for a note."""
    try:
        return json.dumps(event, default=str)
    except RecursionError:
        return str(event.get("name"))


def _dim3(value: Any) -> list[int]:
    if isinstance(value, list) and len(value) == 3:
        numbers = [_number(part) for part in value]
        if all(number is not None and 0 <= number < 2**31 for number in numbers):
            return [int(number) for number in numbers if number is not None]
    return [-1, -1, -1]


def _to_columns(group: dict[str, np.dtype[Any] | None], rows: list[Row]) -> Columns:
    filled = columns.blank(group, len(rows))
    for name, values in filled.items():
        found = [row.get(name) for row in rows]
        if values.dtype == np.uint32:
            filled[name] = categories.encode(found)
        elif all(value is not None for value in found):
            filled[name] = np.asarray(found, values.dtype)
    return {name: values for name, values in filled.items() if name not in OPTIONAL or _any_known(values)}


def _any_known(values: NDArray[Any]) -> bool:
    null = NULL if values.dtype == np.int64 else categories.NULL_CODE
    return bool((values != null).any())
