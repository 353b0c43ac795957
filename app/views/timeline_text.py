"""Timeline: what it says of the lanes in view and of the selected event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rich.text import Text

from tracetui.analysis.base.number_format import (
    format_bytes,
    format_count,
    format_ns,
    format_number,
    format_percent,
    spans,
)
from tracetui.analysis.timeline.facts import delay, facts, has_slack, host_during, module, operator, path_during, slack
from tracetui.analysis.timeline.ranks_timeline import RanksTimeline
from tracetui.app.charts.lanes import shown_name
from tracetui.app.charts.scale import time_label
from tracetui.app.keys import commands
from tracetui.app.text import fitting
from tracetui.app.text.fitting import fit, printable
from tracetui.app.text.words import RESOURCE_LABELS
from tracetui.app.views.timeline_keys import Moving
from tracetui.app.widgets.lines import Line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.timeline.facts import Fact
    from tracetui.analysis.timeline.lanes import Lane
    from tracetui.analysis.timeline.ranks_timeline import Arrival
    from tracetui.analysis.timeline.timeline import Place, Timeline
    from tracetui.app.widgets.timeline import TimelineWidget

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


def value_text(fact: Fact, zero: int, *, ascii: bool) -> str:
    """A value with its unit."""
    value = fact.value
    if value is None:
        return "-"
    if fact.kind == "time":
        return format_ns(cast("float", value), ascii=ascii)
    if fact.kind == "at":
        return time_label(cast("int", value) - zero, 1, ascii=ascii)
    if fact.kind == "bytes":
        return format_bytes(cast("float", value))
    if fact.kind == "count":
        return format_count(cast("int", value))
    if fact.kind == "percent":
        return format_percent(cast("float", value))
    if fact.kind == "number":
        return format_number(cast("float", value))
    return printable(str(value), ascii=ascii)


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


def _certain(built: RanksTimeline) -> str:
    """How far moments of different ranks can be told apart."""
    return "" if built.residual_ns is None else f" ±{format_ns(built.residual_ns)}"


class Described(Moving):
    """The title, two lines about the selected event, and everything about it on demand."""

    def on_timeline_picture_moved(self, event: TimelineWidget.Moved) -> None:
        """Follows the cursor."""
        event.stop()
        self._describe()

    def _describe(self) -> None:
        built, picture = self._built, self.picture
        if built is None:
            return
        own, ascii = self.host.own, self.session.ascii
        left = Text(f" {printable(picture.title, ascii=ascii)}", "bold")
        shown = self._stretch(picture.start, picture.end)
        is_all = picture.start <= built.start and picture.end >= built.end
        left.append(own(f"  {shown}{' · all' if is_all else ' of'} {format_ns(built.end - built.start)}"), "not bold")
        if picture.lanes.hidden:
            left.append(f"  {len(picture.lanes.hidden)} hidden (X)", "not bold")
        self.query_one("#title", Line).show(left, self._count())
        if self.searched:
            left.append(f"  {printable(self.searched, ascii=ascii)}", "not bold")
        if isinstance(built, RanksTimeline):
            left.append(own(f"  ranks {spans(built.ranks)}{_certain(built)}"), "not bold")
        place = picture.selected
        of, here = (built, None) if place is None else built.local(place)
        first, second = selected_lines(of, here, self.size.width, ascii=ascii)
        if isinstance(built, RanksTimeline) and place is not None and (arrivals := built.arrivals(place)):
            second = arrivals_line(arrivals)
        self.query_one("#selected", Line).show(own(f" {first}"))
        self.query_one("#context", Line).show(own(f" {second}"))
        if self.detail.display:
            self._show_detail()

    def _count(self) -> str:
        place, built = self.picture.selected, self._built
        return f"{place.position + 1:,}/{built.row(place).size:,} " if place is not None and built is not None else ""

    def action_details(self) -> None:
        """Shows or hides everything about the selected event."""
        self.detail.display = not self.detail.display
        if self.detail.display:
            self.call_after_refresh(self._show_detail)
        self.host.refresh_lines()

    def _show_detail(self) -> None:
        self.detail.show_text(Text("\n".join(self._detail_lines())))

    def _detail_lines(self) -> list[str]:
        built, place = self._built, self.picture.selected
        if built is None or place is None:
            return ["Nothing is selected."]
        width = (self.detail.size.width or self.size.width) - 2
        return facts_text(facts(*built.local(place)), built.zero, width, ascii=self.session.ascii)

    def action_scroll_detail(self, lines: int) -> None:
        """Scrolls the details."""
        if not self.detail.display:
            self.host.say(f"The details are closed: {commands.key('timeline.details')} opens them")
        self.detail.scroll_relative(y=lines, animate=False)

    def action_copy(self) -> None:
        """Copies everything about the selected event."""
        self.app.copy_to_clipboard("\n".join(self._detail_lines()))
        self.host.say("Copied the details")
