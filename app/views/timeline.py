"""Timeline: what ran when, on every thread and stream, and which call launched it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from rich.text import Text
from textual.app import ComposeResult

from tracetui.analysis.base.number_format import (
    format_bytes,
    format_count,
    format_ns,
    format_number,
    format_percent,
    spans,
)
from tracetui.analysis.dependencies.critical_path import path_lane
from tracetui.analysis.dependencies.critical_path import slack as path_slack
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.nsys.gpu_samples import KNOWN, Sampled, sampled
from tracetui.analysis.ranks.of_run import jobs_of
from tracetui.analysis.ranks.one_rank import ranks_timeline
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.analysis.timeline.facts import (
    Fact,
    delay,
    facts,
    has_slack,
    host_during,
    module,
    operator,
    path_during,
    slack,
)
from tracetui.analysis.timeline.lanes import Lane
from tracetui.analysis.timeline.ranks_timeline import Arrival, RanksTimeline
from tracetui.analysis.timeline.rows import Curve
from tracetui.analysis.timeline.timeline import Place, Timeline, timeline, with_curves, with_path
from tracetui.app.charts.lanes import LEGEND, lane_title, shown_name
from tracetui.app.charts.scale import time_label
from tracetui.app.keys import commands
from tracetui.app.session.session import Session
from tracetui.app.text import fitting
from tracetui.app.text.fitting import fit, printable
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import RESOURCE_LABELS
from tracetui.app.views.common.base import View
from tracetui.app.views.common.chart import ViewChart
from tracetui.app.views.timeline_keys import LanesView
from tracetui.app.widgets.detail_pane import DetailPane
from tracetui.app.widgets.lines import Line
from tracetui.app.widgets.prompt import Question
from tracetui.app.widgets.timeline import TimelineWidget
from tracetui.parsers import Run, Trace
from tracetui.parsers.errors import TraceError

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


MOST_RANKS = 8
"""So many ranks are shown at once; each is in memory while it is."""


def chosen_ranks(text: str, ranks: Sequence[int]) -> tuple[int, ...] | str:
    """The ranks that a text names, ascending: ``0-2, 5``; empty for an empty text. Or what is wrong with it."""
    chosen: set[int] = set()
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or max(len(first), len(last)) > 9:
            return "ranks are numbers: 0-2, 5"
        named = range(int(first), int(last or first) + 1)
        if not named or named[0] not in ranks or named[-1] not in ranks:
            return f"no rank {part} here"
        chosen.update(set(named).intersection(ranks))
    if len(chosen) > MOST_RANKS:
        return f"{len(chosen)} ranks; at most {MOST_RANKS} at once"
    return tuple(sorted(chosen))


def ranks_lanes(session: Session, ranks: Sequence[int]) -> RanksTimeline | None:
    """The timeline of these ranks of run A; reads those that were not read.

    Raises:
        TraceError: one of them can't be read.
    """
    run = session.runs["a"]
    traces = [trace for rank in ranks if (trace := _trace_of(run, rank)) is not None]
    all_jobs = jobs_of(run, Scope(), make=False)
    job = next((candidate for candidate in all_jobs if set(ranks) <= set(candidate.ranks["rank"])), None)
    return ranks_timeline(run, traces, job) if traces else None


def _trace_of(run: Run, rank: int) -> Trace | None:
    own = [trace for trace in run.with_rank(rank).traces if trace.info.rank == rank and trace.has_timeline]
    return own[0] if own else None


def with_program(session: Session, trace: Trace, lanes: Timeline | None) -> Timeline | None:
    """The timeline with what the replay of its program tells, and with samples; None where there is neither.

    It is of the whole recording whatever is in scope, as the lanes are.
    """
    if lanes is None:
        return None
    selection = session.selection() if session.scope == Scope() and session.trace() is trace else select(trace)
    more = lanes
    if trace.info.kind == "nsys":
        more = with_curves(more, known_first(sampled(selection)))
    replayed = model(selection, selection.clean_step_ns)
    if replayed is not None:
        more = with_path(more, path_lane(selection, replayed), path_slack(replayed))
    return more if more is not lanes else None


def known_first(samples: Sequence[Sampled]) -> list[Curve]:
    """The metrics as curves: by GPU, those first that tell most."""
    patterns = list(KNOWN.values())

    def rank(metric: Sampled) -> int:
        return next((at for at, pattern in enumerate(patterns) if re.match(pattern, metric.name)), len(patterns))

    ordered = sorted(samples, key=lambda metric: (metric.device, rank(metric)))
    return [Curve(metric.device, metric.name, metric.unit, metric.time, metric.value) for metric in ordered]


PARTS = 240
"""Of the stretch whose picture is saved: as fine as a wide slide shows."""
Spot: TypeAlias = "tuple[tuple[int, ...], int, int, Place | None]"
"""Whose lanes are shown, the stretch in sight, the selected event."""


class TimelineView(LanesView):
    """The picture; below it what is selected."""

    BINDINGS = commands.bindings("timeline")

    def __init__(self) -> None:
        super().__init__()
        self._wanted: Callable[[], None] | None = None
        """How to go to a place, once the lanes are there."""
        self._trace: Trace | None = None
        self._ranks: tuple[int, ...] = ()
        """Whose lanes are shown together; empty for those of the trace in view alone."""
        self._left_at: Spot | None = None
        """The place to go back to, once its trace is built."""

    def content(self) -> ComposeResult:
        """Title, picture, what is selected, details."""
        yield Line(id="title")
        yield TimelineWidget(id="lanes")
        yield Line(id="selected")
        yield Line(id="context")
        yield DetailPane(id="detail")

    def on_mount(self) -> None:
        """Takes over the choice of characters; Textual calls the handler of `View` next."""
        self.picture.ascii = self.session.ascii
        for line in self.query(Line):
            line.ascii = self.session.ascii

    def reload(self) -> None:
        """Builds the lanes; another scope does not change them."""
        if "a" not in self.session.runs:
            return
        if self._trace is not self.session.trace():
            self._ranks = ()
        if self._trace is not self.session.trace() or self._built is None:
            super().reload()

    def analyse(self) -> tuple[Trace, Timeline | str | None]:
        """Computes the lanes of the whole trace in view, regardless of the scope; of ranks, or why there are none."""
        trace = self.session.trace()
        if self._ranks:
            try:
                return trace, ranks_lanes(self.session, self._ranks)
            except TraceError as problem:
                return trace, str(problem)
        return trace, timeline(trace) if trace.has_timeline else None

    def show(self, result: tuple[Trace, Timeline | str | None]) -> None:
        """Shows the whole recording."""
        self._trace, built = result
        if isinstance(built, str) or (built is None and self._ranks):
            self._ranks, self._wanted = (), None
            self.host.say(printable(built or "These ranks have no recordings with a time line"))
            View.reload(self)
            return
        self._built = built
        self.end_search()
        if self._built is None:
            self.blank(WORDS[self._trace.info.kind].no_timeline)
            return
        self.picture.load(self._built)
        if self.session.scope.window is not None and not self._ranks:  # marked when this run was last in view
            self.show_marks(self.session.scope.window)
        if not isinstance(self._built, RanksTimeline):
            trace = self._trace
            self._compute("program", lambda: self._beside(trace, built))
        left_at, self._left_at = self._left_at, None
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            wanted()
        elif left_at is not None:
            self.restore(left_at)

    def _beside(self, trace: Trace, lanes: Timeline | None) -> Timeline | None:
        """What takes longer than the lanes: the critical path. The picture is there without it."""
        try:
            return with_program(self.session, trace, lanes)
        except Exception as error:
            self.host.log_error(error)
            return None

    def show_inner(self, result: Timeline) -> None:
        """Adds lanes to those in view."""
        if self._built is not None and result.trace is self._built.trace and not self._ranks:
            self._built = result
            self.picture.update(result)

    def focus_content(self) -> None:
        """Focuses the picture."""
        self.picture.focus()

    def chart(self) -> ViewChart | None:
        """The stretch in view: how busy each lane is."""
        from tracetui.analysis.timeline.step_lanes import step_lanes
        from tracetui.app.charts.gantt import GanttLane, lanes_svg

        trace, picture = self._trace, self.picture
        if trace is None or self._built is None:
            return None
        start, end = picture.start, picture.end
        begin = trace.info.window[0] if trace.info.window is not None else 0
        step = step_lanes(trace, start, end, PARTS)
        if not step:
            return None
        lanes = [GanttLane(lane_title(lane.lane, short=True), lane.busy) for lane in step]
        times = (format_ns(time - begin) for time in (start, end))
        title = f"Timeline, {' to '.join(times)} (how busy each lane is)"
        rank = "" if trace.info.rank is None else f"rank {trace.info.rank}"
        return ViewChart(title, rank, lanes_svg(lanes, end - start, title, ascii=self.session.ascii))

    def seek(self, source: str, row: int) -> None:
        """Selects a row of one of the trace's frames, and zooms to where it can be seen among its neighbours."""
        if not self._will_be(()):
            self._wanted = lambda: self.seek(source, row)
            return
        assert self._built is not None
        place = self._built.find(source, row)
        if place is None:
            self.host.say("This has no place in the timeline")
            return
        self.go(place)

    def seek_gap(self, device: int | None, start: int, end: int) -> None:
        """Selects the gap of a GPU that holds a stretch, and shows it with as much around it on both sides."""
        if not self._will_be(()):
            self._wanted = lambda: self.seek_gap(device, start, end)
            return
        assert self._built is not None
        place = self._built.gap_at(device, start, end)
        if place is not None:
            self.picture.select(place)
        self.picture.show_window(start - (end - start) // 2, end + (end - start) // 2)

    def show_ranks(self, ranks: Sequence[int]) -> None:
        """Shows the lanes of several ranks on their common clock; of none, the trace in view alone on its own clock."""
        if not self._will_be(tuple(ranks)):
            self._wanted = lambda: self.show_ranks(ranks)

    def _will_be(self, ranks: tuple[int, ...]) -> bool:
        """Whether the lanes of these ranks are there; if not, they are being made."""
        there = self._built is not None and self.is_mounted and self._trace is self.session.trace()
        if there and ranks == self._ranks:
            return True
        if there:
            self._ranks, self._built = ranks, None
            View.reload(self)
        return False

    def on_timeline_widget_activated(self, event: TimelineWidget.Activated) -> None:
        """A double click is Enter."""
        event.stop()
        self.action_rows()

    def on_timeline_widget_said(self, event: TimelineWidget.Said) -> None:
        """Says it in the footer."""
        event.stop()
        self.host.say(event.text)

    def action_ranks(self) -> None:
        """Asks for the ranks whose lanes are shown."""
        ranks = self.session.runs["a"].ranks if "a" in self.session.runs else ()
        if len(ranks) < 2:
            self.host.say("This run has one rank")
        else:
            label = f"ranks to show, of {spans(ranks)} (such as {spans(ranks[:2])}; empty: one rank):"
            self.host.ask(Question("ranks", label, self._to_ranks))

    def _to_ranks(self, text: str) -> bool:
        """Shows the ranks that were typed, or says what is wrong with them; returns whether the line closes."""
        chosen = chosen_ranks(text, self.session.runs["a"].ranks)
        if isinstance(chosen, str):
            self.host.remark(chosen)
            return False
        if chosen != self._ranks:
            self.show_ranks(chosen)
        return True

    def action_area(self) -> None:
        """Opens the list of what ran in the marked range, by lane."""
        if self._built is not None and self.session.scope.window is None:
            begin, end = commands.key("timeline.begin"), commands.key("timeline.end")
            self.host.say(f"{begin} and {end} mark a range; then {commands.key('timeline.area')} lists what ran in it")
        elif self._built is not None:
            self.app.call_later(self.host.open_rows, "host", "lanes", self.picture.title)

    def action_back(self) -> None:
        """Closes the details, else ends the restriction to the marked range."""
        if self.detail.display:
            self.action_details()
        elif self.end_search():
            self._describe()
        elif self.picture.marks != (None, None) and self.session.scope.window is None:
            self.show_marks(None)
        else:
            self.app.call_later(self.host.stop_loading)
        self.host.refresh_lines()

    # --- what it says of the lanes in view and of the selected event

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
            # how far moments of different ranks can be told apart
            certain = "" if built.residual_ns is None else f" ±{format_ns(built.residual_ns)}"
            left.append(own(f"  ranks {spans(built.ranks)}{certain}"), "not bold")
        place = picture.selected
        of, here = (built, None) if place is None else built.local(place)
        first, second = selected_lines(of, here, self.size.width, ascii=ascii)
        if isinstance(built, RanksTimeline) and place is not None and (arrivals := built.arrivals(place)):
            second = arrivals_line(arrivals)
        elif away := picture.out_of_sight:
            follow = commands.key("timeline.follow")
            second = " · ".join([f"{'; '.join(away)}, out of sight ({follow})", *filter(None, [second])])
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

    @property
    def place_text(self) -> str:
        """Returns the innermost line that led to the selected event."""
        built, place = self._built, self.picture.selected
        told = () if built is None or place is None else facts(*built.local(place))
        return next((str(fact.value) for fact in told if fact.title == "Line"), "")

    def action_copy(self) -> None:
        """Copies everything about the selected event."""
        self._copy("\n".join(self._detail_lines()), "the details")

    # --- around it

    def footer_labels(self) -> dict[str, str]:
        """Returns the labels; without a timeline, no key does anything."""
        if self.has_class("-blank"):
            return {c.id: "" for c in commands.COMMANDS if c.where in ("timeline", "lanes")}
        if self.detail.display:
            return {"timeline.back": "close"}
        if self.searched:
            # the hits' key takes the room of the events' and of the rarer ones, which the help page has
            names = ("next", "follow", "event", "fit", "area", "begin")
            rarer = dict.fromkeys((f"timeline.{name}" for name in names), "")
            return {"timeline.back": "end search", "timeline.next_same": "next hit"} | rarer
        labels = {"app.help": "signs"} | ({"timeline.back": "back"} if self.host.came_by_jump else {})
        if self.session.scope.window is not None:
            return {"timeline.back": "end range", "timeline.save": "save it", "timeline.begin": ""} | labels
        begin, end = self.picture.marks
        half = {"timeline.begin": "" if end is None else "its start", "timeline.end": "its end" if end is None else ""}
        return {"timeline.area": ""} | labels | ({} if begin is end is None else half)

    @property
    def _is_current(self) -> bool:
        """Returns whether the picture is of the trace in view, and not of an earlier one."""
        return self._built is not None and self._trace is self.session.trace()

    def place(self) -> Spot | None:
        """Returns the ranks shown, the visible time range and the selected event."""
        picture = self.picture
        return (self._ranks, picture.start, picture.end, picture.selected) if self._is_current else None

    def is_at(self, place: Spot | None) -> bool:
        """Whether this stretch is in sight, with this event selected."""
        return place is None or place == self.place()

    def is_zoomed(self, before: Spot | None, after: Spot | None) -> bool:
        """Whether these stretches of the same ranks are not equally long."""
        if before is None or after is None or before[0] != after[0]:
            return False
        return before[2] - before[1] != after[2] - after[1]

    def restore(self, place: Spot | None) -> None:
        """Goes back to a stretch, and to the event that was selected there."""
        if not self._is_current:
            self._left_at = place
        elif place is not None:
            ranks, start, end, selected = place
            if not self._will_be(ranks):
                self._left_at = place
                return
            self.picture.start, self.picture.end = start, end
            if selected is not None:
                self.picture.select(selected)
            self.picture.changed()

    def go_to(self, name: str) -> None:
        """Does nothing: events can't be found by name alone."""

    def on_resize(self) -> None:
        """Cuts the lines anew."""
        self._describe()

    def columns_about(self) -> list[tuple[str, str]]:
        """What the signs mean."""
        return list(LEGEND)
