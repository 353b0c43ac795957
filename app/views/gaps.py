"""Pages about time: the longest gaps of a GPU, and what ran in the marked range by lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.tables.critical_path import GAPS, LANE_EVENTS, LANES
from tracetui.analysis.timeline.facts import events_within, lanes_within
from tracetui.analysis.timeline.gaps import MOST, longest_gaps
from tracetui.analysis.timeline.timeline import Timeline, timeline
from tracetui.app.charts.lane_titles import lane_title
from tracetui.app.charts.lanes import shown_name
from tracetui.app.text.fitting import short_function
from tracetui.app.text.tool_words import WORDS
from tracetui.app.text.words import IDLE_CAUSES, RESOURCE_LABELS
from tracetui.app.views.common.page import Page
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.app.session.session import Session

_NO_GAPS = "No gaps: no GPU of this recording is idle between its first and its last step, or nothing ran on one."


def gaps_page(session: Session) -> Page:
    """The longest gaps in scope; Enter shows one in the Timeline."""
    selection = session.selection()

    def compute() -> pl.DataFrame:
        found = longest_gaps(selection, model(selection.recorded, selection.trace.clean_step_ns))
        return found.with_columns(
            pl.col("path").replace(RESOURCE_LABELS),
            pl.col("cause").cast(pl.String),
            short_host=pl.col("host").map_elements(short_function, return_dtype=pl.String),
            short_next=pl.col("next").map_elements(short_name, return_dtype=pl.String),
        )

    frame = session.cached("gaps", compute)
    several = frame["device"].n_unique() > 1
    columns = tuple(field for field in GAPS.columns if several or field.name != "device")
    longest = f"the {MOST} longest" if frame.height == MOST else "all"
    return Page.of(
        GAPS,
        frame,
        columns=columns,
        note=f"{selection.describe()} · {longest}, {format_ns(int(frame['duration_ns'].sum()))} in all"
        " · % of all idle time"
        if frame.height
        else selection.describe(),
        empty=_NO_GAPS if selection.trace.has_timeline else WORDS[selection.trace.info.kind].no_timeline,
    )


def lanes_page(session: Session) -> Page:
    """What ran in the marked range, or in the whole recording, by lane; Enter opens the names."""
    trace = session.trace()
    built = timeline(trace) if trace.has_timeline else None
    if built is None:
        return Page.of(LANES, pl.DataFrame(schema={"lane": pl.String}), empty=WORDS[trace.info.kind].no_timeline)
    start, end = _area(session, built)
    frame = session.cached("lanes", lambda: lanes_within(built, start, end))
    titles = [lane_title(built.lanes[number]) for number in frame["number"]]
    shorts = [_shown(built, number, name) for number, name in frame.select("number", "most").iter_rows()]
    frame = frame.with_columns(lane=pl.Series(titles, dtype=pl.String), short_most=pl.Series(shorts, dtype=pl.String))
    return Page.of(LANES, frame, note=_note(session, start, end), empty="Nothing ran in this range.")


def inside_lane(session: Session, row: Mapping[str, Any]) -> Callable[[], Page]:
    """What ran in a lane, by name."""
    number = int(row["number"])

    def page() -> Page:
        built = timeline(session.trace())
        assert built is not None
        start, end = _area(session, built)
        frame = events_within(built, number, start, end)
        shorts = [_shown(built, number, name) for name in frame["name"]]
        frame = frame.with_columns(
            short_name=pl.Series(shorts, dtype=pl.String), frame=pl.lit(built.lanes[number].source)
        )
        return Page.of(LANE_EVENTS, frame, title=str(row["lane"]), note=_note(session, start, end))

    return page


def _area(session: Session, built: Timeline) -> tuple[int, int]:
    return session.scope.window or (built.start, built.end)


def _note(session: Session, start: int, end: int) -> str:
    words = session.range_words or "marked range"
    base = "whole recording" if session.scope.window is None else f"{words}, {format_ns(end - start)}"
    return f"{base} · % of it"


def _shown(built: Timeline, number: int, name: str) -> str:
    source = built.lanes[number].source
    if source == "idle":
        return IDLE_CAUSES.get(name, name)
    kind = "kernel" if source == "device" else "python" if built.lanes[number].kind == "python" else ""
    return shown_name(source, kind, name, ascii=False)
