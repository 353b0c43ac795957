"""A sweep: its verdict, points and variants, as a whole or as single tables chosen by name."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tracetui.analysis.base.json_values import Json, us
from tracetui.analysis.base.number_format import UNKNOWN, format_count, format_ns, format_share, format_signed_ns
from tracetui.analysis.captures.model import category_rows, matrix_rows, phase_rows, top_kernel_rows
from tracetui.analysis.counters.compared import ALL, COMMON
from tracetui.analysis.report.sweep import SweepCounters, SweepReport, kind_rows, point_rows, speedup_rows
from tracetui.analysis.sweeps.compare import Comparison, KindChange, scaling
from tracetui.analysis.sweeps.model import CAPTURE, Point, Sweep
from tracetui.analysis.sweeps.model import shown as spelled
from tracetui.analysis.sweeps.reading import CLEAN
from tracetui.analysis.tables import captures, sweeps
from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS
from tracetui.analysis.tables.runs import SWEEP_POINTS
from tracetui.analysis.tables.table import Field, Table
from tracetui.app.charts.lines import Line, line_chart, lines_svg
from tracetui.app.reports.content.captures import capture_parts, matrix_parts, rows_to_plot
from tracetui.app.reports.content.counters import stopped_text, weighted
from tracetui.app.reports.content.side_by_side import fitting, letter
from tracetui.app.reports.counter_text import change_text, value_text
from tracetui.app.reports.csv_report import captures_csv, plain_csv
from tracetui.app.reports.finding_words import missing_by_reason
from tracetui.app.reports.layout import GAP, WIDTH, Layout, Shown
from tracetui.app.reports.parts import Block, Chart, FindingList, Part, Sentences, Title, cell, filled, shown
from tracetui.app.tables.columns import cell_text

CHART_ROWS, SPEEDUP_ROWS = 14, 13
ACROSS = 3
"""The most sizes beside each other in a table of kinds."""
SIGNS = {"added": "+", "removed": "-", "changed": "~"}
SOURCES = {
    "index": "a sweep of tracetui profile",
    "runs": "launched runs",
    "captures": "captures whose names vary",
    "table": "a table",
}
FLAT: dict[str, tuple[Table, Callable[[SweepReport], list[Json]]]] = {
    "comparisons": (sweeps.SPEEDUPS, speedup_rows),
    "kinds": (sweeps.KINDS, kind_rows),
    "phases": (captures.PHASES, lambda found: phase_rows(found.captures)),
    "categories": (captures.CATEGORIES, lambda found: category_rows(found.captures)),
    "top_kernels": (captures.TOP_KERNELS, lambda found: top_kernel_rows(found.captures)),
}
"""The tables of ``sweep --section`` that are rows of declared columns, in CSV and JSON."""
OF_VARIANTS = ("comparisons", "kinds")
"""Those that compare; the others have a row per capture and phase or kernel."""
NO_RANGES = "no recording of Nsight Systems with ranges in this sweep."
NOTHING = {
    "points": "no points.",
    "comparisons": "no two variants to compare.",
    "kinds": "no two variants whose recordings have GPU work.",
    "matrix": "no recordings of Nsight Systems with ranges, or names without a pattern.",
}


def sweep_parts(found: SweepReport, layout: Layout) -> Iterator[Part]:
    """The whole sweep."""
    sweep = found.sweep
    unused = Sentences(tuple(f"Not used: {note}" for note in sweep.notes))
    yield _title(sweep)
    if found.counters is not None and not any(point.step_ns for point in sweep.points):
        yield Sentences((counters_head(found.counters, sweep.axes),))
        yield from counter_blocks(found.counters, sweep.axes, layout)
        yield unused
        return
    yield Sentences((_head(sweep),))
    yield Sentences((verdict(found),), lead=True)
    yield FindingList(found.judged)
    yield chart_block(sweep, layout)
    for block in (points_block(found, layout), *comparison_blocks(found, layout)):
        yield _limited(block, layout)
    yield Sentences(tuple(accounts(found)), bullets=True)
    if not is_invalid(found):
        yield from kind_blocks(found, layout)
    if found.captures:
        yield from capture_parts(found.captures, layout)
        folder = shlex.quote(str(sweep.path))
        same = f"The same of chosen steps or devices: tracetui report {folder} --section captures"
        yield Sentences((*rows_to_plot(found.captures), same))
    if len(found.comparisons) > 1:
        yield Sentences(tuple(f"{one.label}: {one.crossover.verdict}." for one in found.comparisons))
    if found.counters is not None:
        yield from counter_blocks(found.counters, sweep.axes, layout)
    yield Sentences((abstained(found),) if abstained(found) else ())
    yield unused


def _title(sweep: Sweep) -> Title:
    return Title(f"tracetui sweep: {sweep.path.name or sweep.path}")


def _limited(block: Block, layout: Layout) -> Block:
    return replace(block, cells=block.cells[: layout.limit], whole=len(block.cells))


def section_parts(found: SweepReport, sections: Sequence[str], layout: Layout) -> Iterator[Part]:
    """Some sections of the sweep, as ``sweep --section`` names them."""
    yield _title(found.sweep)
    for name in sections:
        if name in ("points", "comparisons"):
            blocks = [points_block(found, layout)] if name == "points" else comparison_blocks(found, layout)
            yield from (_limited(block, layout) for block in blocks)
        elif name == "kinds":
            yield from kind_blocks(found, layout)
        elif name == "captures":
            yield from capture_parts(found.captures, layout) if found.captures else ()
        elif name == "matrix":
            yield from matrix_parts(found.captures, layout)
        else:
            yield from _flat(found, name, layout)
        if not _filled(found, name):
            yield Sentences((f"Nothing for {name}: {NOTHING.get(name, NO_RANGES)}",))


def _filled(found: SweepReport, name: str) -> bool:
    if name in ("points", "captures"):
        return bool(found.sweep.points if name == "points" else found.captures)
    rows = matrix_rows(found.captures)[1] if name == "matrix" else FLAT[name][1](found)
    return bool(rows) and not (name in OF_VARIANTS and is_invalid(found))


def _flat(found: SweepReport, name: str, layout: Layout) -> Iterator[Part]:
    """A table of captures with a column for each axis."""
    table, rows, axes = FLAT[name][0], FLAT[name][1](found), found.sweep.axes
    if table is captures.PHASES:  # the whole capture has no means
        rows = [row for row in rows if row["phase"] != captures.WHOLE or row["outcome"] not in ("measured", "cut")]
    if not rows:
        return
    fields = table.chosen(table.reports)
    if any(row.get("outcome", "measured") != "measured" for row in rows):
        fields = (*fields, table.field("outcome"))
    columns = [*(Shown(axis, right=False) for axis in axes), *map(shown, fields)]
    cells = [
        [*(spelled(row.get(axis)) for axis in axes), *(cell(one, row, ascii=layout.ascii) for one in fields)]
        for row in rows[: layout.limit]
    ]
    kept, cells = fitting(columns, cells, ("Ranges", "Calls", "CPU%", "GPU%"))
    ended = dict.fromkeys(f"{_place(row, axes)}: {row['reason']}" for row in rows if row.get("reason"))
    yield Block(table.title, note=table.base, columns=tuple(kept), cells=cells, whole=len(rows), after=tuple(ended))


def _place(row: Json, axes: Sequence[str]) -> str:
    """``model small, ctx 128``."""
    return ", ".join(f"{axis} {spelled(row[axis])}" for axis in axes if row.get(axis) is not None)


def section_csv(found: SweepReport, section: str) -> str:
    """One section, one line per row; the axes first where they are its rows' own."""
    if section == "points":
        return sweep_csv(found)
    if section == "captures":
        return captures_csv(found.captures)
    if section == "matrix":
        header, rows = matrix_rows(found.captures)
        return plain_csv(rows, header)
    table, rows_of = FLAT[section]
    axes = () if section in OF_VARIANTS else found.sweep.axes
    return plain_csv(rows_of(found), (*axes, *table.csv_header))


def sweep_csv(found: SweepReport) -> str:
    """The points, one line each; where Nsight Compute measured them, a line per point and kind of kernels."""
    if found.counters is not None:
        return counters_csv(found.counters, found.sweep)
    rows = [{**row, "findings": " ".join(row["findings"])} for row in point_rows(found)]
    return plain_csv(rows, (*found.sweep.axes, *SWEEP_POINTS.keys))


def verdict(found: SweepReport) -> str:
    """Returns what answers the question of the sweep: which variant is faster from where on, and what scales."""
    if wrong := _invalid(found):
        return f"Invalid: {wrong[0]}."
    if found.counters is not None and not any(point.step_ns for point in found.sweep.points):
        return (
            "Reports of Nsight Compute hold no steps to compare: their counters stand side by side in the tab Counters,"
            " and `tracetui sweep` prints them by point."
        )
    if not found.comparisons:
        if "capture" in found.sweep.axes:
            return "No variants to compare: the names of these captures do not say how they differ."
        return scaling(found.sweep) or "No two variants to compare: the points below differ in size only."
    best = next((one for one in found.comparisons if one.crossover.value is not None), found.comparisons[0])
    more = f" ({len(found.comparisons)} comparisons below)" if len(found.comparisons) > 1 else ""
    return f"{best.label}: {best.crossover.verdict}{more}. {scaling(found.sweep)}".rstrip()


def accounts(found: SweepReport) -> list[str]:
    """Says what changed in the step from a baseline to its variant, at the smallest and the largest size."""
    rows = [item for row in found.judged.findings if row.id == "D6" for item in row.evidence]
    return [f"{item.label}: {item.value}" for item in rows]


def abstained(found: SweepReport) -> str:
    """What rules could not judge, and why; empty where all could."""
    said = "; ".join(f"{rules}: {missing}" for rules, missing in missing_by_reason(found.judged.findings_abstained))
    return f"Could not judge: {said}" if said else ""


def is_invalid(found: SweepReport) -> bool:
    """Returns whether its points are invalid, so that variants are not compared."""
    return bool(_invalid(found))


def _invalid(found: SweepReport) -> list[str]:
    return [row.title for row in found.judged.findings if row.severity == "invalid"]


def _head(sweep: Sweep) -> str:
    runs = sum(point.repeats for point in sweep.points)
    axes = " x ".join(sweep.axes) or "one point"
    return (
        f"{SOURCES[sweep.source].capitalize()}: {len(sweep.points)} points over {axes}, {runs} runs; "
        f"a step is {sweep.base}{busy_base(sweep)}."
    )


def busy_base(sweep: Sweep) -> str:
    """What `busy` is a share of, where that is not the step beside it: ``, busy of the profiled steps``, else empty."""
    known = any(point.busy_percent is not None for point in sweep.points)
    return ", busy of the profiled steps" if known and sweep.base == CLEAN else ""


def seen(point: Point) -> float | None:
    """The observed batch where it is not the one that names the point."""
    return None if point.seen == point.axes.get("batch") else point.seen


def marks(found: SweepReport, point: Point) -> str:
    """Whether a point is the fastest, the findings about it, or why it has no numbers."""
    best = ["best"] if point.label in found.sweep.best and not is_invalid(found) else []
    return " ".join([*best, *found.marks.get(point.label, []), point.problem or ""]).strip()


def points_block(found: SweepReport, layout: Layout) -> Block:
    """One row per point; columns that no point fills are left out."""
    points, axes = found.sweep.points, found.sweep.axes
    empty = {name for name in SWEEP_POINTS.reports[1:] if all(point.value(name) is None for point in points)}
    if all(seen(point) is None for point in points):
        empty.add("seen")
    if all(point.repeats < 2 for point in points):
        empty.add("repeats")
    fields = SWEEP_POINTS.chosen(name for name in SWEEP_POINTS.reports if name not in empty)
    columns = [*map(Shown, axes), *map(shown, fields), Shown("", right=False, share=1)]
    cells = [
        [
            *(spelled(point.axes.get(axis)) for axis in axes),
            *(cell_text(point.value(one.name), one.kind, ascii=layout.ascii) for one in fields),
            marks(found, point),
        ]
        for point in points
    ]
    if not any(row[-1] for row in cells):
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    columns, cells = fitting(columns, cells, ("seen", "per sample", "GFLOPs", "runs", "±", "busy%", "kernels"))
    return Block(SWEEP_POINTS.title, columns=tuple(columns), cells=cells)


def comparison_blocks(found: SweepReport, layout: Layout) -> list[Block]:
    """A table per variant: its speed-up beside the work removed, at each size."""
    return [] if is_invalid(found) else [_comparison(one, layout) for one in found.comparisons]


def _comparison(one: Comparison, layout: Layout) -> Block:
    optional: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("less work%", "work_removed_percent", format_share),
        ("lost%", "lost_percent", lambda v: "-" if v is None or v < 0 else format_share(v)),
        ("kernels", "kernels_delta", lambda v: "-" if v is None else f"{v:+,.0f}"),
        ("GPU", "gpu_delta_ns", lambda v: format_signed_ns(v, ascii=layout.ascii)),
    ]
    filled = [entry for entry in optional if any(getattr(row, entry[1]) is not None for row in one.rows)]
    columns = [
        Shown(one.x_axis or ""), Shown(spelled(one.base)), Shown(spelled(one.value)),
        Shown("speed-up"), *(Shown(heading) for heading, _, _ in filled), Shown("", right=False),
    ]  # fmt: skip
    cells = [
        [
            spelled(row.x),
            format_ns(row.baseline_ns, ascii=layout.ascii),
            format_ns(row.variant_ns, ascii=layout.ascii),
            f"{row.speedup:.2f}" + (f" ±{2 * row.speedup_error:.2f}" if row.speedup_error is not None else ""),
            *(write(getattr(row, name)) for _, name, write in filled),
            {None: "", True: "noise", False: "faster" if row.speedup > 1 else "slower"}[row.within_noise],
        ]
        for row in one.rows
    ]
    columns, cells = fitting(columns, cells, ("GPU", "kernels", "lost%"))
    return Block(one.label, columns=tuple(columns), cells=cells, chart=speedup_chart(one, layout))


def lines_of(
    sweep: Sweep, write: Callable[[str], str], measure: str = "step_ns", title: str = "step time"
) -> list[Line]:
    """A line of one number of the points for each combination of the axes but that of x; steps with their spread."""
    lines: dict[str, list[tuple[float, float]]] = {}
    spread: dict[str, list[tuple[float, float, float]]] = {}
    for point in sweep.points:
        x, y = point.axes.get(sweep.x_axis or ""), point.value(measure)
        if isinstance(x, int | float) and y is not None:
            name = ", ".join(f"{axis} {spelled(at)}" for axis, at in point.beside(sweep.x_axis).items()) or title
            lines.setdefault(name, []).append((float(x), y))
            if measure == "step_ns" and point.std_ns:
                spread.setdefault(name, []).append((float(x), y - point.std_ns, y + point.std_ns))
    return [Line(write(name), tuple(sorted(points)), tuple(spread.get(name, ()))) for name, points in lines.items()]


def chart_block(sweep: Sweep, layout: Layout) -> Block:
    """Step times over sizes; without rows where there is no line to draw."""
    axis = layout.text(sweep.x_axis or "")
    labels = _labels(axis, "step time", partial(format_ns, ascii=layout.ascii))
    return Block("", chart=_chart(lines_of(sweep, layout.text), f"step time by {axis}", CHART_ROWS, layout, labels))


def speedup_chart(one: Comparison, layout: Layout) -> Chart | None:
    """The speed-up over size, beside what the removed work allows; the gap between both is lost."""
    axis, lines = layout.text(one.x_axis or ""), speedup_lines(one)
    labels = _labels(axis, "speed-up", "{:.2f}".format)
    return _chart(lines, f"speed-up by {axis}", SPEEDUP_ROWS, layout, labels) if lines else None


def _labels(axis: str, title: str, write: Callable[[float], str]) -> dict[str, Any]:
    """How a chart over an axis is labelled."""
    return {"x_title": axis, "y_title": title, "x_label": "{:g}".format, "y_label": write}


def _chart(lines: list[Line], title: str, height: int, layout: Layout, labels: dict[str, Any]) -> Chart:
    """Lines as a picture of text, and as SVG."""
    some = any(len(line.points) > 1 for line in lines)
    rows = line_chart(lines, WIDTH - 2, height, **labels, ascii=layout.ascii) if some else []
    return Chart("", tuple(rows), lambda: lines_svg(lines, title, **labels))


def speedup_lines(one: Comparison) -> list[Line]:
    """The lines of that picture, with a standard error to both sides; none where there are not two sizes."""
    rows = [(float(row.x), row) for row in one.rows if not isinstance(row.x, str)]
    if len(rows) < 2:
        return []
    error = [(x, row.speedup, row.speedup_error) for x, row in rows if row.speedup_error]
    measured = Line(
        "speed-up",
        tuple((x, row.speedup) for x, row in rows),
        tuple((x, max(speedup - by, 1e-3), speedup + by) for x, speedup, by in error),
    )
    possible = tuple((x, row.possible_speedup) for x, row in rows if row.possible_speedup)
    allowed = [Line("what the removed work allows", possible)] if len(possible) > 1 else []
    return [measured, *allowed, Line("as fast as the baseline", tuple((x, 1.0) for x, _ in (rows[0], rows[-1])))]


def kind_blocks(found: SweepReport, layout: Layout) -> Iterator[Block]:
    """For each variant the kinds of work that differ from its baseline, with launches and time at each size."""
    for one, rows in found.kinds:
        sizes = list(dict.fromkeys(row.x for row in rows))
        kinds = _ordered(rows)
        for first in range(0, len(sizes), ACROSS):
            yield _kinds(one, kinds, sizes[first : first + ACROSS], layout)


def _ordered(rows: Sequence[KindChange]) -> dict[str, dict[object, KindChange]]:
    """The rows of each kind by size: kinds that were added, removed, then changed, each by their largest difference."""
    found: dict[str, dict[object, KindChange]] = {}
    for row in rows:
        found.setdefault(row.kind, {})[row.x] = row
    changed = {kind: of for kind, of in found.items() if any(row.status != "same" for row in of.values())}

    def place(kind: str) -> tuple[int, float]:
        return list(SIGNS).index(_status(changed[kind])), -max(abs(row.delta_ns) for row in changed[kind].values())

    return {kind: changed[kind] for kind in sorted(changed, key=place)}


def _status(of: dict[object, KindChange]) -> str:
    """``added`` if it is so at every size that has it; of several changes the one that all can be called."""
    told = {row.status for row in of.values()} - {"same"}
    return told.pop() if len(told) == 1 else "changed"


def _kinds(
    one: Comparison, kinds: dict[str, dict[object, KindChange]], sizes: Sequence[object], layout: Layout
) -> Block:
    axis = one.x_axis or ""
    named = len(sizes) < ACROSS  # else there is no room
    cells = []
    for kind, of in list(kinds.items())[: layout.limit]:
        row = [f"{SIGNS[_status(of)]} {kind}"]
        for size in sizes:
            row += _cells(of.get(size), layout)
        top = next(iter(of.values()))
        cells.append([*row, top.short_name or top.name] if named else row)
    columns = [Shown("kind", right=False)]
    for size in sizes:
        columns += [Shown(f"{axis} {size:g}" if isinstance(size, int | float) else str(size)), Shown("kernels")]
    if named:
        columns.append(Shown("kernel", right=False, share=1, is_name=True))
    return Block(
        f"{sweeps.KINDS.title}: {one.label}",
        note="GPU time and kernels per step more (+) or fewer than the baseline; + before a kind: only the variant has "
        "it, -: only the baseline, ~: both",
        columns=tuple(columns),
        cells=cells,
        whole=len(kinds),
    )


def _cells(row: KindChange | None, layout: Layout) -> list[str]:
    if row is None:
        return [UNKNOWN, UNKNOWN]
    more = row.variant_calls - row.baseline_calls
    return [format_signed_ns(row.delta_ns, ascii=layout.ascii), f"{more:+,.6g}" if more else "0"]


COUNTED = (
    "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent", "occupancy_percent",
    "tensor_cores_percent",
)  # fmt: skip
RATES = ("dram_bytes", "gflop", "intensity", "sectors_per_load", "sectors_per_store", "registers", "waves")
"""A second table: what was moved and computed, and how launches were shaped."""
AXES_WIDTH = 24
"""Characters of a line that the values of the axes may take."""


def counters_head(counters: SweepCounters, axes: Sequence[str]) -> str:
    """What was read, and what times are about."""
    rows = [row for row in counters.rows if row["kind"] == ALL]
    over = " x ".join(axes) or "one point"
    launches = format_count(sum(row["launches"] for row in rows))
    return (
        f"Reports of Nsight Compute: {len(rows)} points over {over}, {launches} profiled launches. They hold single "
        "launches and no steps: times are sums over these launches, at the clocks that ncu set."
    )


def counter_blocks(counters: SweepCounters, axes: Sequence[str], layout: Layout) -> Iterator[Block]:
    """The tables; the points stand in them by the values of their axes, or by letters where there are many axes."""
    places = _Places(counters.rows, axes)
    rows = [{**row, "gflop": None if row["flops"] is None else row["flops"] / 1e9} for row in counters.rows]
    whole = [row for row in rows if row["kind"] == ALL]
    yield from places.legend()
    known = [field.name for field in filled(CONFIGURATIONS.chosen(COUNTED), whole)]
    stopped = {places.letters[name] if places.lettered else name: limit for name, limit in counters.stopped.items()}
    notes = (weighted(counters.weights, known), stopped_text(stopped))
    names = ("launches", "total_ns", *COUNTED)
    yield _by_point("Counters by point", whole, places, names, layout, after=tuple(filter(None, notes)))
    if any(row[field.json_key] is not None for row in whole for field in CONFIGURATIONS.chosen(RATES)):
        yield _by_point("Work and launches by point", whole, places, RATES, layout)
    if common := [row for row in rows if row["kind"] == COMMON]:
        yield _by_point("Counters of the kernels that every point profiled", common, places, names, layout)
    kinds = [row for row in rows if row["kind"] not in (ALL, COMMON)]
    listed = list(dict.fromkeys(row["kind"] for row in kinds))
    chosen = [row for row in kinds if row["kind"] in listed[: layout.limit]]
    of_kinds = ("kind", "time_percent", *(name for name in COUNTED if name != "dram_percent"))
    by_kind = _by_point("By kind of kernel", chosen, places, of_kinds, layout)
    yield replace(by_kind, base="of the point's profiled time", whole=len(kinds))
    yield from _counter_changes(counters, axes, places, layout)


class _Places:
    """How the points are named in the tables: by their axes, or by letters."""

    def __init__(self, rows: Sequence[Json], axes: Sequence[str]) -> None:
        whole = [row for row in rows if row["kind"] == ALL]
        self.axes = [axis for axis in axes if len({row[axis] for row in whole}) > 1 or len(whole) < 2]
        widths = [max(len(axis), *(len(spelled(row[axis])) for row in whole)) + len(GAP) for axis in self.axes]
        self.lettered = len(self.axes) > 1 and sum(widths) > AXES_WIDTH
        self.letters = {row["configuration"]: letter(number) for number, row in enumerate(whole)}
        self.columns = [Shown(" ", right=False)] if self.lettered else list(map(_axis, self.axes))
        self._whole = whole

    def legend(self) -> Iterator[Block]:
        """What each letter stands for."""
        if self.lettered:
            columns = (Shown(" ", right=False), Shown("point", right=False, share=1))
            cells = [[self.letters[row["configuration"]], _place(row, self.axes)] for row in self._whole]
            yield Block("Points that Nsight Compute measured", columns=columns, cells=cells)

    def cells(self, row: Json) -> list[str]:
        """The cells of `columns`."""
        return [self.letters[row["configuration"]]] if self.lettered else [spelled(row[axis]) for axis in self.axes]

    def of(self, axis: str, value: object, fixed: Json) -> list[str]:
        """The cells of the point that has this value, and these on the other axes."""
        there = {**fixed, axis: value}
        return self.cells(next(row for row in self._whole if all(row[name] == there.get(name) for name in there)))


def _axis(name: str) -> Shown:
    is_capture = name == CAPTURE
    return Shown(name, right=not is_capture, share=int(is_capture), is_name=is_capture)


def counters_csv(counters: SweepCounters, sweep: Sweep) -> str:
    """A line per point and kind of kernels: the axes, the step where it is known, and every counter."""
    steps = {tuple(map(point.axes.get, sweep.axes)): us(point.step_ns) for point in sweep.points}
    rows = [{**row, "step_us": steps.get(tuple(map(row.get, sweep.axes)))} for row in counters.rows]
    return plain_csv(rows, (*sweep.axes, "step_us", *CONFIGURATIONS.csv_header))


def _by_point(
    heading: str, rows: Sequence[Json], places: _Places, names: Sequence[str], layout: Layout,
    after: tuple[str, ...] = (),
) -> Block:  # fmt: skip
    """A row per point; metrics that no row has are left out."""
    fields = filled(CONFIGURATIONS.chosen(names), rows)
    lead = [field for field in fields if field.name == "kind"]
    rest = [field for field in fields if field.name != "kind"]
    columns = [*map(shown, lead), *places.columns, *map(shown, rest)]
    cells = [
        [
            *(cell(field, row, ascii=layout.ascii) for field in lead),
            *places.cells(row),
            *(cell(field, row, ascii=layout.ascii) for field in rest),
        ]
        for row in rows
    ]
    return Block(heading, columns=tuple(columns), cells=cells, whole=len(rows), after=after)


def _counter_changes(counters: SweepCounters, axes: Sequence[str], places: _Places, layout: Layout) -> Iterator[Block]:
    """For each axis what each value changes from its baseline, all else alike."""
    fields = CONFIGURATIONS.chosen(("total_ns", *COUNTED))
    for axis in axes:
        rows = [row for row in counters.changes if row.axis == axis]
        if not rows:
            continue
        known = [field for field in fields if any(field.json_key in row.changes for row in rows)]
        cells = [
            [
                *places.of(axis, row.variant, row.fixed),
                *(_counter_change(field, row.changes.get(field.json_key), layout) for field in known),
            ]
            for row in rows
        ]
        columns = [*places.columns, *(replace(shown(field), title=field.title) for field in known)]
        yield Block(
            f"Change from {axis} {spelled(rows[0].baseline)}, all else alike", "percentage points; time as it is",
            tuple(columns), cells, len(cells),
        )  # fmt: skip


def _counter_change(field: Field, change: float | None, layout: Layout) -> str:
    if field.kind == "time":
        return change_text(None if change is None else change * 1000, "ns", ascii=layout.ascii)
    if field.kind == "percent":
        return "-" if change is None else f"{change:+.2f}"
    return value_text(change, "")
