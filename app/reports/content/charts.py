"""The charts of a run's report, from its JSON contract; without rows where there is nothing to draw.

Each chart imports what draws it when it is drawn: a report of one section draws few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from tracetui.analysis.base.number_format import format_bytes, format_percent, format_us
from tracetui.app.reports.finding_words import WORK_TIME, whole_of
from tracetui.app.reports.parts import Chart
from tracetui.app.text.fitting import fit, printable
from tracetui.parsers.names.serving import phase_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tracetui.analysis.report.model import BusyLane, Memory, Overview, Row
    from tracetui.app.tables.trees import TreeRow

MOST_STEPS = 8
SAMPLES_ROWS = 7
HISTOGRAM_ROWS, ICICLE_LEVELS, STACK_LEVELS, MEMORY_ROWS = 9, 7, 12, 9
FINE = 330
"""Spans of time that a picture's memory curve has."""
TOO_FAR = 4
"""Reserved memory is drawn in the same chart up to this multiple of the allocated memory."""


class Spread(Struct, frozen=True):
    """How the launches of a kernel are distributed over durations."""

    log: bool
    edges_us: list[float]
    counts: list[int]


class KernelRow(Struct, frozen=True):
    """A kernel of the report, as far as its chart and what is said of it need it."""

    name: str
    short_name: str | None
    calls: int
    median_us: float | None
    p95_us: float | None
    max_us: float | None
    tensor_cores: bool | None
    module: str | None
    operator: str | None
    range: str | None
    distribution: Spread | None = None


def _chart(title: str, rows: Iterable[str], drawn: Callable[[], str] | None = None) -> Chart:
    return Chart(title, tuple(rows), drawn)


def steps_chart(found: Overview, width: int, *, ascii: bool = False) -> Chart:
    """A stacked bar for each step of the section ``overview``."""
    from tracetui.app.charts.steps import GROUPS, Step, marked, step_bars, steps_svg

    rows = found.per_step or []
    steps = [
        Step(
            str(row.index),
            1000 * (row.us or 0),
            [1000 * sum(row.categories[name].us or 0 for name in names) for _, _, _, names, _ in GROUPS],
            phase=phase_of(row.name),
        )
        for row in rows
    ]
    steps = marked(steps)[:MOST_STEPS]
    more = f", the first {MOST_STEPS} of {len(rows)}" if len(rows) > MOST_STEPS else ""
    title = f"{steps_words(found)} (where their time goes{more})"

    return _chart(
        title,
        step_bars(steps, width, ascii=ascii) if len(rows) > 1 else [],
        lambda: steps_svg(steps, title, ascii=ascii),
    )


def steps_words(found: Overview) -> str:
    """Which steps the section lists."""
    return "Steps of the light recording" if found.as_recorded else "Steps as recorded"


def lanes_chart(found: Overview, width: int, *, ascii: bool = False) -> Chart:
    """One step as lanes: what is busy when."""
    from tracetui.analysis.timeline.lanes import Lane
    from tracetui.app.charts.gantt import gantt, lanes_svg
    from tracetui.app.charts.lanes import gantt_lane

    picture = found.lanes
    if not picture or not picture.lanes:
        return _chart("", [])
    lanes = [
        gantt_lane(
            Lane(row.kind, _source(row), (), row.device, row.stream, row.process, row.thread, row.name or ""),
            [cell / 100 for cell in row.cells],
            [(event.name, event.begin_percent / 100, event.end_percent / 100) for event in row.events],
            ascii=ascii,
        )
        for row in picture.lanes
    ]
    what = f"{whole_words(found) if picture.step is None else f'Step {picture.step}'} as recorded"
    title, lasting = f"{what} (how busy each lane is)", round(1000 * (picture.us or 0))

    return _chart(
        title, gantt(lanes, width, lasting, ascii=ascii), lambda: lanes_svg(lanes, lasting, title, ascii=ascii)
    )


def _source(row: BusyLane) -> str:
    return "host" if row.kind == "calls" else "device"


def whole_words(found: Overview) -> str:
    """What stands for one step in a recording without steps."""
    return "First to last GPU work" if whole_of(found.base) == WORK_TIME else "The whole file"


def launches_chart(rows: Sequence[KernelRow], width: int, *, ascii: bool = False) -> Chart:
    """Shows how long the launches of the kernel with most time take."""
    from tracetui.analysis.base.distribution import Distribution
    from tracetui.app.charts.histogram import histogram, histogram_svg

    row = rows[0] if rows else None
    if row is None or row.distribution is None:
        return _chart("", [])
    spread = row.distribution
    found = Distribution(
        spread.log,
        tuple(round(1000 * edge) for edge in spread.edges_us),
        tuple(spread.counts),
        1000 * (row.median_us or 0),
        round(1000 * (row.p95_us or 0)),
        round(1000 * (row.max_us or 0)),
    )
    title = f"The {row.calls:,} launches of "
    name = fit(printable(row.short_name or row.name, ascii=ascii), width - len(title), ascii=ascii)

    return _chart(
        title + name,
        histogram(found, width, HISTOGRAM_ROWS, ascii=ascii),
        lambda: histogram_svg(found, title + name, ascii=ascii),
    )


def modules_chart(rows: Sequence[TreeRow], width: int, *, ascii: bool = False) -> Chart:
    """The module tree as boxes, by GPU time, else host time."""
    gpu = [(row.device_total_us or 0) + (row.backward_device_us or 0) for row in rows]
    both = any(row.backward_device_us for row in rows)
    return _boxes_chart(rows, gpu, "GPU time, both passes" if both else "GPU time", width, ascii=ascii)


def ranges_chart(rows: Sequence[TreeRow], width: int, *, ascii: bool = False) -> Chart:
    """The tree of ranges as boxes, by GPU time, else host time."""
    gpu = _of_any_thread(rows) or [row.device_total_us or 0 for row in rows]
    return _boxes_chart(rows, gpu, "GPU time", width, ascii=ascii)


def _of_any_thread(rows: Sequence[TreeRow]) -> list[float]:
    """What any thread launched in each range, the rest in none; empty where ranges of several threads share work."""
    if any(row.device_meanwhile_us is None and row.calls for row in rows):
        return []
    whole = sum(row.device_total_us or 0 for row in rows if not row.depth)
    rest = whole - sum(row.device_meanwhile_us or 0.0 for row in rows if not row.depth)
    if rest < -1e-3 * whole:
        return []
    return [max(rest, 0.0) if row.device_meanwhile_us is None else row.device_meanwhile_us for row in rows]


def _boxes_chart(rows: Sequence[TreeRow], gpu: Sequence[float], what: str, width: int, *, ascii: bool) -> Chart:
    """An icicle by these GPU times, else by host time; without rows for one level, since the table shows the same."""
    from tracetui.app.charts.icicle import IcicleTree, boxes_svg, icicle

    values = gpu if any(gpu) else [row.host_total_us or 0 for row in rows]
    tree = IcicleTree.of([row.spelled for row in rows], [row.depth for row in rows], values, ascii=ascii)
    title = f"The same as boxes, the largest first (share of {what if any(gpu) else 'host time'})"
    drawn = icicle(tree.roots, tree.children, width, ICICLE_LEVELS, ascii=ascii)
    return _chart(title, drawn if len(drawn) > 1 else [], lambda: boxes_svg(tree, ICICLE_LEVELS, title))


def stacks_chart(rows: Sequence[Row], width: int, *, ascii: bool = False) -> Chart:
    """Stacks of one thread as boxes, by the time of the sampled steps."""
    from tracetui.app.charts.icicle import IcicleTree, boxes_svg, icicle

    values = [row["percent"] for row in rows]
    tree = IcicleTree.of([row["name"] for row in rows], [row["depth"] for row in rows], values, ascii=ascii)
    title = "The same as boxes, the largest first (share of the sampled steps)"
    drawn = icicle(tree.roots, tree.children, width, STACK_LEVELS, ascii=ascii)
    return _chart(title, drawn if len(drawn) > 1 else [], lambda: boxes_svg(tree, STACK_LEVELS, title))


def samples_chart(row: Row, width: int, *, ascii: bool = False) -> Chart:
    """The share of the SMs that worked over the sampled time, from a GPU's row of `gpu_samples`."""
    from tracetui.app.charts.area import area_chart

    known = [
        one for one in row["metrics"] if one["unit"] == "%" and one["metric"].startswith(("SMs Active", "SM Active"))
    ]
    if not known or len([value for value in known[0]["curve"] if value is not None]) < 2:
        return _chart("", [])
    ends = ("0", format_us(row["total_us"], ascii=ascii))
    rows = area_chart(known[0]["curve"], [], width, SAMPLES_ROWS, label=format_percent, times=ends, ascii=ascii)
    return Chart(f"{known[0]['metric']} over the sampled time", tuple(rows))


def memory_chart(found: Memory, width: int, *, ascii: bool = False) -> Chart:
    """The allocator's curve."""
    from tracetui.app.charts.area import area_chart, curve_svg, plot_width

    curve = found.curve or []
    if len(curve) < 2:
        return _chart("", [])
    allocated = [row.allocated_bytes for row in curve]
    reserved = [row.reserved_bytes for row in curve]
    known = [value for value in reserved if value is not None]
    with_line = bool(known) and max(known) <= TOO_FAR * max(value or 0 for value in allocated)
    room = plot_width(allocated, reserved if with_line else [], width, MEMORY_ROWS, label=format_bytes)
    times = [row.at_us for row in curve]
    ends = ("first event", "last event")
    if None not in times:
        ends = (format_us(times[0], ascii=ascii), format_us(times[-1], ascii=ascii))
    rows = area_chart(
        levels(times, allocated, room), levels(times, reserved, room) if with_line else [], width, MEMORY_ROWS,
        label=format_bytes, times=ends, ascii=ascii,
    )  # fmt: skip
    line = f", {'-' if ascii else '─'} reserved" if with_line else ""

    def drawn() -> str:
        fine = [levels(times, values, FINE) for values in ([allocated, reserved] if with_line else [allocated])]
        return curve_svg(
            fine[0], fine[1] if with_line else [], "Memory over time", label=format_bytes, times=ends,
            names=("allocated", "reserved"),
        )  # fmt: skip

    title = f"Memory over time ({'#' if ascii else '█'} allocated{line})"
    return Chart(title, tuple(rows), drawn, "Memory over time")


def levels(times: Sequence[float | None], values: Iterable[float | None], columns: int) -> list[float | None]:
    """Returns the maximum in each of so many equal time spans; a span without a point keeps the previous level."""
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        known = [float(number) for number in range(len(times))]
    first = min(known, default=0.0)  # clocks that were set back order the events otherwise than their times
    span = (max(known, default=0.0) - first) or 1.0
    found: list[float | None] = [None] * columns
    last: list[float | None] = [None] * columns
    for time, value in zip(known, values, strict=True):
        at = min(int((time - first) / span * columns), columns - 1)
        if value is not None:
            before = found[at]
            found[at] = value if before is None else max(before, value)
            last[at] = value
    level: float | None = None
    for column in range(columns):
        if found[column] is None:
            found[column] = level
        else:
            level = last[column]
    return found
