"""The pictures of the Overview page: the steps as bars, one step as lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from tracetui.app.charts.gantt import GanttLane, gantt_runs
from tracetui.app.charts.lanes import lane_title, shown_name
from tracetui.app.charts.steps import GROUPS, Step, legend, marked, step_runs
from tracetui.app.keys import commands
from tracetui.app.reports.finding_words import WORK_TIME, whole_of
from tracetui.app.text import fitting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.overview import Overview
    from tracetui.app.views.texts.overview_writer import OverviewData, Writer

WIDE = 100
"""The least columns for a step to be shown as lanes."""


def whole_words(overview: Overview) -> str:
    """What stands for one step in a recording without steps."""
    return "First to last GPU work" if whole_of(overview.base) == WORK_TIME else "Whole file"


def steps_picture(writer: Writer, overview: Overview, most: int) -> list[Text]:
    """A stacked bar for each step, all on one scale."""
    frame = overview.per_step
    shown = frame.head(most - 1) if frame.height > most else frame

    def step(row: dict[str, Any]) -> Step:
        parts = [sum(row[f"{c}_ns"] or 0 for c in categories) for _, _, _, categories, _ in GROUPS]
        return Step(str(row["index"]), row["duration_ns"], parts)

    every = marked([step(row) for row in frame.iter_rows(named=True)])
    title = writer.head("Steps")
    for sign, key, meaning in legend(every, ascii=writer.ascii):
        title.append("  ")
        title.append(sign, writer.style(key))
        title.append(f" {meaning}")
    lines = [title]
    longest = _ns(frame["duration_ns"].max())
    lines += _styled(writer, step_runs(every[: shown.height], writer.width, longest=longest, ascii=writer.ascii))
    if shown.height < frame.height:
        lines.append(Text(f"  and {frame.height - shown.height} more steps", writer.style("muted")))
    return lines


def lanes_picture(writer: Writer, data: OverviewData) -> list[Text]:
    """One step as lanes, where there is width for them."""
    if data.lanes is None or not data.lanes.lanes or writer.width < WIDE:
        return []
    picture = data.lanes
    lanes = [
        GanttLane(
            fitting.printable(lane_title(one.lane, short=True), ascii=writer.ascii),
            one.busy,
            {"calls": "runtime", "copies": "loader"}.get(one.lane.kind, "gpu"),
            [
                (_event_name(one.lane.source, event.name, ascii=writer.ascii), event.begin, event.end)
                for event in one.events
            ],
        )
        for one in picture.lanes
    ]
    what = f"Step {picture.step}" if picture.step is not None else whole_words(data.overview)
    remark = f"how busy each lane is; {commands.key('tab.timeline')} has the events"
    recorded = " as recorded" if data.overview.as_recorded is not None else ""
    lines = [writer.head(f"{what}, {writer.time(picture.lasting)}{recorded}", remark)]
    width = writer.width - 2
    for line in _styled(writer, gantt_runs(lanes, width, picture.lasting, ascii=writer.ascii)):
        lines.append(Text("  ").append_text(line))
    return lines


def _event_name(source: str, name: str, *, ascii: bool) -> str:
    return shown_name(source, "kernel" if source == "device" else "python", name, ascii=ascii)


def _styled(writer: Writer, lines: Sequence[Sequence[tuple[str, str]]]) -> list[Text]:
    found = []
    for line in lines:
        text = Text()
        for part, style in line:
            text.append(part, writer.style(style))
        found.append(text)
    return found


def _ns(value: object) -> int:
    return value if isinstance(value, int) else 0
