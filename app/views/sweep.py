"""Sweep: the runs or captures of a folder by their options; the chart above the table shows the sort column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

import polars as pl

from tracetui.analysis.base.number_format import format_ns, format_number, format_percent
from tracetui.analysis.captures.model import CaptureRow
from tracetui.analysis.counters.compared import ALL
from tracetui.analysis.findings.config import load
from tracetui.analysis.report.sweep import SweepReport, sweep_report
from tracetui.analysis.sweeps.model import Sweep
from tracetui.analysis.sweeps.model import shown as spelled
from tracetui.analysis.sweeps.reading import read_sweep
from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS
from tracetui.analysis.tables.runs import CAPTURES, ROLES, SWEEP_FINDINGS, SWEEP_POINTS, SWEEP_VARIANTS
from tracetui.analysis.tables.sweeps import KINDS as SWEEP_KINDS
from tracetui.analysis.tables.table import Field
from tracetui.app.charts.lines import line_chart
from tracetui.app.keys import commands
from tracetui.app.reports.content.sweep import busy_base, lines_of, marks, seen, verdict
from tracetui.app.reports.finding_words import headline
from tracetui.app.text.fitting import printable
from tracetui.app.views.common.messages import OpenRuns
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import TableView
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.run import sweep_folder

MEASURES: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "step": ("step time", "step_ns", format_ns),
    "throughput": ("samples per second", "images_per_s", format_number),
    "GPU time": ("GPU time per step", "gpu_ns", format_ns),
    "kernels": ("kernels per step", "kernels", format_number),
    "busy": ("GPU busy", "busy_percent", format_percent),
}
"""What the chart shows: its title, the attribute of a point, how a value is written."""
LEAST_ROWS = 18
"""Terminals with fewer rows show only the table."""


class SweepView(TableView):
    """Points, variants against their baseline, and findings, below a chart."""

    TAB = "sweep"
    ABOVE = True
    TABLES = ("points", "variants", "findings", "kinds", "counters", "captures")
    BINDINGS = commands.bindings("sweep")

    def __init__(self) -> None:
        super().__init__()
        self._found: SweepReport | None = None
        self._measure = "step"

    # --- what is computed in a thread

    def root(self) -> Page:
        """The table in view, of the folder that the run stands in."""
        self._found = None
        folder = sweep_folder(self.session.runs["a"]) or self._opened_folder()
        if folder is None:
            return _empty("This run is not part of a sweep.")
        try:
            self._found = self.session.cached(
                ("sweep", folder), lambda: sweep_report(read_sweep(folder), self.session.config or load(folder))
            )
        except TraceError as problem:
            return _empty(str(problem))
        return _page(self.kind, self._found)

    def _opened_folder(self) -> Path | None:
        """The folder of a run that was opened by itself, after others of its folder."""
        mine = self.session.open[self.session.sides["a"]]
        beside = any(entry.origin == mine.origin for entry in self.session.open.values() if entry is not mine)
        return mine.origin if beside and mine.origin.is_dir() else None

    @property
    def tables(self) -> tuple[str, ...]:
        """Returns the tables of this sweep."""
        there = {"counters": self._found and self._found.counters, "captures": self._found and self._found.captures}
        return tuple(kind for kind in self.TABLES if there.get(kind, True))

    def action_measure(self) -> None:
        """The chart of the next number."""
        points = self._found.sweep.points if self._found is not None else ()
        known = [name for name, (_, key, _) in MEASURES.items() if any(point.value(key) for point in points)]
        if known:
            at = known.index(self._measure) + 1 if self._measure in known else 0
            self._measure = known[at % len(known)]
            self._draw_above()
        else:
            self.host.say("There is nothing to chart here" if self._found else "This run is not part of a sweep")

    def above(self, width: int, height: int) -> list[str]:
        """The verdict, and the chart where there is room."""
        if self._found is None or self.has_class("-blank"):
            return []
        said = self.host.own(printable(verdict(self._found)))
        lines = wrap(said, max(width - 2, 20), initial_indent=" ", subsequent_indent=" ")
        if height >= LEAST_ROWS:
            lines += chart(self._found.sweep, self._measure, width, min(height // 2, 16), ascii=self.session.ascii)
        return lines

    def footer_labels(self) -> dict[str, str]:
        """Without a chart in view there is no other to choose."""
        labels = super().footer_labels()
        return labels | {"sweep.measure": ""} if self.has_class("-blank") else labels

    # --- in and out

    def action_drill(self) -> None:
        """Opens the run of a point; of a variant, it and its baseline side by side."""
        row = self.table.current
        paths = [] if row is None else [row.get("path"), row.get("path_b")]
        if not paths or paths[0] is None:
            super().action_drill()
            return
        self.post_message(OpenRuns(Path(str(paths[0])), None if paths[1] is None else Path(str(paths[1]))))


def chart(sweep: Sweep, measure: str, width: int, height: int, *, ascii: bool) -> list[str]:
    """The chart of one number against the sweep's axis; empty where no two points can be drawn."""
    title, name, write = MEASURES[measure]
    lines = lines_of(sweep, partial(printable, ascii=ascii), name, title)
    if not any(len(line.points) > 1 for line in lines):
        return []
    return line_chart(
        lines, width, height, x_title=printable(str(sweep.x_axis), ascii=ascii), y_title=title,
        x_label=lambda value: f"{value:g}", y_label=lambda value: printable(write(value), ascii=ascii),
        log=measure != "busy", ascii=ascii,
    )  # fmt: skip


def _page(kind: str, found: SweepReport) -> Page:
    """One of the tables."""
    points = found.sweep.points
    note = f"{len(points)} points, a step is {found.sweep.base}"
    if kind == "points" and busy_base(found.sweep):
        note = f"{len(points)} points · step: median without a profiler, busy: under it"
    if kind == "variants":
        return Page.of(SWEEP_VARIANTS, _variants(found), note=note, empty="No two variants to compare here.")
    if kind == "kinds":
        return Page.of(SWEEP_KINDS, _kinds(found), note=note, empty="No two variants whose recordings have GPU work.")
    if kind == "counters":
        return _counters(found)
    if kind == "findings":
        rows = [{"said": headline(row), "try": row.advice} for row in found.judged.findings]
        frame = _frame(rows, SWEEP_FINDINGS.fields)
        return Page.of(SWEEP_FINDINGS, frame, note=note, empty="The rules found nothing to say of this sweep.")
    if kind == "captures" and found.captures:
        frame = captures_frame(found.captures)
        shown = [column for column in CAPTURES.columns if frame[column.name].null_count() < frame.height]
        what = f"{len(found.captures)} captures · means of one range, GPU: what it launched"
        return Page.of(CAPTURES, frame, columns=tuple(shown), note=what, inside="open run")
    frame = _points(found)
    shown = [column for column in SWEEP_POINTS.columns if frame[column.name].null_count() < frame.height]
    drill = "open run" if any(point.path for point in points) else ""
    return Page.of(SWEEP_POINTS, frame, columns=(*_axes(found.sweep), *shown), note=note, inside=drill)


def captures_frame(found: Sequence[CaptureRow]) -> pl.DataFrame:
    """The rows of the table of captures; times in ns, null if a capture lacks the value."""
    rows = []
    for row in found:
        cells: dict[str, object] = {
            "path": None if row.problem else row.path,
            "capture": row.label,
            "step_ns": _ns(row.average_step_us),
            "gpu_ns": _ns(row.gpu_us_per_step if row.steps else row.gpu_us),
            "busy_percent": row.busy_percent,
            "kernels": row.kernels if row.kernels_per_step is None else round(row.kernels_per_step),
            "wall_ns": _ns(row.wall_us),
            "top": row.problem or (row.top_kernel.short_name if row.top_kernel else None),
        }
        for role, _ in ROLES:
            cells[f"{role}_host_ns"] = _ns(row.of_phase(role, "host_mean_us"))
            cells[f"{role}_gpu_ns"] = _ns(row.of_phase(role, "launched_mean_us"))
        rows.append(cells)
    return _frame(rows, CAPTURES.columns)


def _counters(found: SweepReport) -> Page:
    """What Nsight Compute counted: a row per point, and then per kind of kernels."""
    counted = [] if found.counters is None else found.counters.rows
    columns = [field for field in CONFIGURATIONS.data_fields if field.screen and field.name != "configuration"]
    rows = [
        {f"axis_{axis}": spelled(row[axis]) for axis in found.sweep.axes}
        | {
            field.name: _ns(row[field.json_key]) if field.name.endswith("_ns") else row[field.json_key]
            for field in columns
        }
        for row in sorted(counted, key=lambda row: row["kind"] != ALL)
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    shown = [field for field in columns if frame.height and frame[field.name].null_count() < frame.height]
    return Page.of(
        CONFIGURATIONS, frame, columns=(*_axes(found.sweep), *shown), empty="Nsight Compute measured no point of this "
        "sweep.", note="profiled launches, by kind of kernel; means weighted by time, active cycles or sectors",
    )  # fmt: skip


def _axes(sweep: Sweep) -> tuple[Field, ...]:
    return tuple(
        Field(f"axis_{axis}", axis, width=min(len(axis), 12), priority=0, about="what the runs differ in")
        for axis in sweep.axes
    )


def _frame(rows: list[dict[str, Any]], fields: Iterable[Field]) -> pl.DataFrame:
    """The rows as a frame of these columns; of other keys the texts."""
    kinds = {field.name: field.kind for field in fields}
    types = {"text": pl.String, "status": pl.String, "count": pl.Int64}
    more = {key: "text" for row in rows[:1] for key in row if key not in kinds}
    return pl.DataFrame(rows, schema={name: types.get(kind, pl.Float64) for name, kind in (more | kinds).items()})


def _points(found: SweepReport) -> pl.DataFrame:
    """One row per point; times in ns. ``point`` is its label, by which findings lead to it."""
    rows = [
        {
            "point": point.label,
            "path": None if point.path is None else str(point.path),
            **{f"axis_{axis}": spelled(point.axes.get(axis)) for axis in found.sweep.axes},
            **{field.name: point.value(field.name) for field in SWEEP_POINTS.columns},
            "seen": seen(point),
            "marks": marks(found, point) or None,
        }
        for point in found.sweep.points
    ]
    return _frame(rows, SWEEP_POINTS.columns)


def _variants(found: SweepReport) -> pl.DataFrame:
    rows = [
        {
            "label": one.label,
            "x": spelled(row.x),
            "base_ns": row.baseline_ns,
            "variant_ns": row.variant_ns,
            "speedup": row.speedup,
            "work": row.work_removed_percent,
            "lost": row.lost_percent,
            "kernels": row.kernels_delta,
            "gpu_ns": row.gpu_delta_ns,
            "path": None if row.base.path is None else str(row.base.path),
            "path_b": None if row.variant.path is None else str(row.variant.path),
            "sure": "noise" if row.within_noise else "faster" if row.speedup > 1 else "slower",
        }
        for one in found.comparisons
        for row in one.rows
    ]
    return _frame(rows, SWEEP_VARIANTS.fields)


def _kinds(found: SweepReport) -> pl.DataFrame:
    rows = [
        {
            "short_name": change.short_name,
            **{field.name: getattr(change, field.name, None) for field in SWEEP_KINDS.columns},
            "comparison": one.label,
            "x": spelled(change.x),
        }
        for one, changes in found.kinds
        for change in changes
        if change.status != "same"
    ]
    return _frame(rows, SWEEP_KINDS.columns)


def _ns(us: float | None) -> float | None:
    return None if us is None else round(us * 1000, 6)  # whole ns, which a product may miss by the last bit


def _empty(why: str) -> Page:
    text = (
        f"{printable(why)}\n\n"
        "tracetui open FOLDER      opens a folder of captures\n"
        "tracetui sweep TABLE.csv  reads a table\n\n"
        "This makes one and opens it:\n"
        "tracetui profile MODEL --sweep batch=1,2,4 --repeats 3"
    )
    return Page.of(SWEEP_POINTS, pl.DataFrame(), title="Sweep", empty=text, alone=True)
