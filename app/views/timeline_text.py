"""Timeline: what it says of the lanes in view and of the selected event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tracetui.analysis.base.number_format import (
    format_bytes,
    format_count,
    format_ns,
    format_number,
    format_percent,
)
from tracetui.analysis.timeline.facts import Fact, delay, has_slack, host_during, module, operator, path_during, slack
from tracetui.app.charts.lanes import shown_name
from tracetui.app.charts.scale import time_label
from tracetui.app.text import fitting
from tracetui.app.text.fitting import fit, printable
from tracetui.app.text.words import RESOURCE_LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.analysis.timeline.lanes import Lane
    from tracetui.analysis.timeline.ranks_timeline import Arrival
    from tracetui.analysis.timeline.timeline import Place, Timeline

TITLE = 15
CELL = 34
"""Columns for a number and its title."""


def facts_text(facts: Sequence[Fact], zero: int, width: int, *, ascii: bool) -> list[str]:
    """Lines of at most `width` columns, as far as names can be broken.

    Args:
        facts: what to write.
        zero: the time that counts as 0, ns.
        width: columns there are.
        ascii: no characters outside ASCII.
    """
    lines: list[str] = []
    for fact in facts:
        if fact.kind == "text":
            text = printable(str(fact.value), ascii=ascii)
            room = max(width - TITLE, 20)
            parts = [text[at : at + room] for at in range(0, len(text), room)]
            lines += [f"{fact.title if not number else '':<{TITLE}}{part}" for number, part in enumerate(parts)]
    numbers = [fact for fact in facts if fact.kind != "text"]
    per_line = max(width // CELL, 1)
    for begin in range(0, len(numbers), per_line):
        row = numbers[begin : begin + per_line]
        cells = [f"{fact.title:<{TITLE}}{value_text(fact, zero, ascii=ascii)}" for fact in row]
        lines.append("".join(fitting.pad(cell, CELL) for cell in cells).rstrip())
    return lines


_FORMATS: dict[str, Callable[[Any], str]] = {
    "bytes": format_bytes, "count": format_count, "percent": format_percent, "number": format_number,
}  # fmt: skip


def value_text(fact: Fact, zero: int, *, ascii: bool) -> str:
    """A value with its unit."""
    value = fact.value
    if value is None:
        return "-"
    if fact.kind == "time":
        return format_ns(cast("float", value), ascii=ascii)
    if fact.kind == "at":
        return time_label(cast("int", value) - zero, 1, ascii=ascii)
    return _FORMATS[fact.kind](value) if fact.kind in _FORMATS else printable(str(value), ascii=ascii)


def selected_lines(timeline: Timeline, place: Place | None, width: int, *, ascii: bool) -> tuple[str, str]:
    """Describes an event and its context: the launch of GPU work, the work of a call, the host during a gap."""
    if place is None:
        return "Nothing is selected.", ""
    lane = timeline.lanes[place.lane]
    start, end = timeline.span(place)
    lasting = format_ns(end - start, ascii=ascii)
    at = time_label(start - timeline.zero, max((end - start) // 10, 1), ascii=ascii)
    if lane.source == "idle":
        gpu = "?" if lane.device is None else lane.device
        return f"GPU {gpu} idle {lasting} at {at}", _during(timeline, lane, start, end)
    if lane.source == "samples":
        return _of_sample(lane, timeline.record(place), at, lasting)
    kind = timeline.kinds(lane.source, [timeline.event(place)])[0]
    through = f"critical path: {RESOURCE_LABELS[kind]}" if lane.source == "path" else kind
    name = fit(shown_name(lane.source, kind, timeline.name(place), ascii=ascii), max(width - 34, 20), ascii=ascii)
    first = f"{name}  {lasting} at {at}" + ("" if lane.source == "steps" else f"  {through}")
    if lane.source == "device":
        return first, " · ".join(_of_work(timeline, place))
    return first, " · ".join(_of_call(timeline, place, ascii=ascii)) if lane.source == "host" else ""


def _during(timeline: Timeline, lane: Lane, start: int, end: int) -> str:
    during = host_during(timeline, lane.device, start, end)
    parts = [f"{format_percent(100 * ns / (end - start))} {printable(name)}" for name, ns in during.own]
    late, when = during.launched_after, ""
    if late is not None:
        when = f"next launched {format_ns(abs(late))} {'into it' if late > 0 else 'before'}; "
    thread = "" if during.thread is None else f" {during.thread}"
    path = path_during(timeline, start, end)
    resource = ""
    if path is not None and path.parts:
        through = RESOURCE_LABELS[path.parts[0][0]]
        resource = f"critical path: {format_percent(100 * path.parts[0][2] / (end - start))} {through}; "
    return f"{when}{resource}host{thread}: {', '.join(parts) or 'not recorded'}"


def _of_sample(lane: Lane, record: dict[str, Any], at: str, lasting: str) -> tuple[str, str]:
    name = printable(str(record["name"]))
    curve = next(curve for curve in lane.curves if curve.name == record["name"])
    mean = float(curve.means(curve.time[[0, -1]])[0])
    unit = curve.unit and f" {printable(curve.unit)}"
    gpu = "" if lane.device is None else f"GPU {lane.device} · "
    first = f"{name}  {format_number(record['value'])}{unit} at {at}, over {lasting}"
    return first, f"{gpu}mean of all samples {format_number(mean)}{unit}"


def arrivals_line(arrivals: Sequence[Arrival]) -> str:
    """When each rank begins a collective, after the first one: ``arrives: r2 first, r0 +12.1 µs, r1 +14.1 ms last``."""
    ordered = sorted(arrivals, key=lambda arrival: (arrival.begin, arrival.rank))
    first = ordered[0]
    later = [f"r{arrival.rank} +{format_ns(arrival.begin - first.begin)}" for arrival in ordered[1:]]
    if later:
        later[-1] += " last"
    return "arrives: " + ", ".join([f"r{first.rank} first", *later])


def _of_work(timeline: Timeline, place: Place) -> list[str]:
    grid, block, moved = timeline.trace.device.select("grid", "block", "bytes").row(timeline.event(place))
    parts = []
    if grid is not None:
        parts.append("x".join(map(str, grid)) + (f" / {'x'.join(map(str, block))}" if block is not None else ""))
    if moved is not None:
        parts.append(format_bytes(moved))
    if (late := delay(timeline, place)) is not None:
        parts.append(f"delay {format_ns(late)}")
    if has_slack(timeline, place):
        spare = slack(timeline, place)
        parts.append(f"slack {'-' if spare is None else format_ns(spare)}")
    if launcher := operator(timeline, place):
        parts.append(f"by {printable(launcher)}")
    if around := module(timeline, place):
        parts.append(f"in {printable(around.rpartition('/')[2])}")
    return parts


def _of_call(timeline: Timeline, place: Place, *, ascii: bool) -> list[str]:
    parts = []
    if (work := timeline.work_of(place)) is not None:
        event = timeline.event(work)
        name = shown_name("device", timeline.kinds("device", [event])[0], timeline.name(work), ascii=ascii)
        start, end = timeline.span(work)
        parts.append(f"starts {fit(name, 40, ascii=ascii)}, {format_ns(end - start)} (f)")
    if around := module(timeline, place):
        parts.append(f"in {printable(around.rpartition('/')[2])}")
    if shapes := timeline.trace.host["input_shapes"][timeline.event(place)]:
        parts.append(printable(str(shapes)))
    return parts
