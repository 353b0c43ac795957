"""Sweep: the runs of a folder by their options; the chart above the table shows the sort column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import polars as pl
from textual.widgets import Static

from tracetui.analysis.base.number_format import format_number, format_percent, format_us
from tracetui.analysis.counters.configurations import ALL
from tracetui.analysis.findings.config import load
from tracetui.analysis.report.sets.sweep import sweep_report
from tracetui.analysis.sweeps.reading import read_sweep
from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS
from tracetui.analysis.tables.runs import SWEEP_FINDINGS, SWEEP_POINTS, SWEEP_VARIANTS
from tracetui.analysis.tables.sweeps import KINDS as SWEEP_KINDS
from tracetui.analysis.tables.table import Field
from tracetui.app.charts.lines import Line, line_chart
from tracetui.app.keys import commands
from tracetui.app.reports.content.sweeps.sweep import busy_base, deviation, label, spelled, verdict
from tracetui.app.reports.finding_words import headline
from tracetui.app.text.fitting import printable
from tracetui.app.views.common.messages import OpenRuns
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import TableView
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.folder.sweep_place import sweep_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.findings.config import Config

MEASURES: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "step": ("step time", "step_us", format_us),
    "throughput": ("samples per second", "images_per_s", format_number),
    "GPU time": ("GPU time per step", "gpu_us", format_us),
    "kernels": ("kernels per step", "kernels", format_number),
    "busy": ("GPU busy", "busy_percent", format_percent),
}
"""What the chart shows: its title, the key of a point, how a value is written."""
LEAST_ROWS = 18
"""Terminals with fewer rows show only the table."""


@dataclass(frozen=True)
class _Result:
    page: Page
    found: Json | None


class SweepView(TableView):
    """Points, variants against their baseline, and findings, below a chart."""

    TAB = "sweep"
    TABLES = ("points", "variants", "findings", "kinds", "counters")
    BINDINGS = commands.bindings("sweep")

    def __init__(self) -> None:
        super().__init__()
        self._found: Json | None = None
        self._measure = "step"

    def content(self) -> ComposeResult:
        """Lays out the verdict and the chart above the usual table widgets."""
        yield Static(id="curve", markup=False)
        yield from super().content()

    # --- what is computed in a thread

    def analyse(self) -> _Result:  # type: ignore[override]
        """The table in view, of the folder that the run stands in."""
        folder = sweep_folder(self.session.runs["a"])
        if folder is None:
            return _Result(_empty("This run is not part of a sweep."), None)
        try:
            found = self.session.cached(
                ("sweep", folder), lambda: sweep_report(read_sweep(folder), self._config(folder))
            )
        except TraceError as problem:
            return _Result(_empty(str(problem)), None)
        return _Result(_page(self.kind, found), found)

    @property
    def _next_kind(self) -> str:
        counted = self._found is not None and self._found["counters"] is not None
        there = [kind for kind in self.TABLES if kind != "counters" or counted]
        return there[(there.index(self.kind) + 1) % len(there)] if self.kind in there else there[0]

    def _config(self, folder: Path) -> Config:
        return self.session.config or load(folder)

    def show(self, result: _Result) -> None:  # type: ignore[override]
        """The chart, then the table."""
        self._found = result.found
        super().show(result.page)

    def _show_page(self) -> None:
        super()._show_page()
        self._draw()

    def on_resize(self) -> None:
        """Draws the chart anew; Textual calls the handler of `TableView` too."""
        self._draw()

    def action_measure(self) -> None:
        """The chart of the next number."""
        known = _drawable(self._found) if self._found is not None else []
        if known:
            at = known.index(self._measure) + 1 if self._measure in known else 0
            self._measure = known[at % len(known)]
            self._draw()
        else:
            self.host.say("There is nothing to chart here" if self._found else "This run is not part of a sweep")

    def _draw(self) -> None:
        above = self.query_one("#curve", Static)
        width, height = self.size
        above.display = self._found is not None and width > 0 and not self.has_class("-blank")
        if self._found is not None and width:
            said = self.host.own(printable(verdict(self._found)))
            lines = wrap(said, max(width - 2, 20), initial_indent=" ", subsequent_indent=" ")
            if height >= LEAST_ROWS:
                lines += chart(self._found, self._measure, width, min(height // 2, 16), ascii=self.session.ascii)
            above.update("\n".join(lines))

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


def chart(found: Json, measure: str, width: int, height: int, *, ascii: bool) -> list[str]:
    """The chart of one number against the sweep's axis; empty where no two points can be drawn."""
    title, key, write = MEASURES[measure]
    axis = found["x_axis"]
    lines: dict[str, list[tuple[float, float]]] = {}
    spread: dict[str, list[tuple[float, float, float]]] = {}
    for row in found["points"]:
        x, y = row.get(axis) if axis else None, row[key]
        if isinstance(x, int | float) and y is not None:
            rest = [f"{name} {spelled(row[name])}" for name in found["axes"] if name != axis and row[name] is not None]
            name = ", ".join(rest) or title
            lines.setdefault(name, []).append((float(x), float(y)))
            spread.setdefault(name, []).extend(deviation(float(x), row) if key == "step_us" else [])
    if not any(len(points) > 1 for points in lines.values()):
        return []
    drawn = [
        Line(printable(name, ascii=ascii), tuple(sorted(points)), tuple(spread[name])) for name, points in lines.items()
    ]
    return line_chart(
        drawn, width, height, x_title=printable(str(axis), ascii=ascii), y_title=title,
        x_label=lambda value: f"{value:g}", y_label=lambda value: printable(write(value), ascii=ascii),
        log=measure != "busy", ascii=ascii,
    )  # fmt: skip


def _drawable(found: Json) -> list[str]:
    return [name for name, (_, key, _) in MEASURES.items() if any(row[key] for row in found["points"])]


def _page(kind: str, found: Json) -> Page:
    """One of the tables."""
    note = f"{len(found['points'])} points, a step is {found['base']}"
    if kind == "points" and busy_base(found):
        note = f"{len(found['points'])} points · step: median without a profiler, busy: under it"
    if kind == "variants":
        return Page.of(SWEEP_VARIANTS, _variants(found), note=note, empty="No two variants to compare here.")
    if kind == "kinds":
        return Page.of(SWEEP_KINDS, _kinds(found), note=note, empty="No two variants whose recordings have GPU work.")
    if kind == "counters":
        return _counters(found)
    if kind == "findings":
        rows = [(headline(row), row["advice"]) for row in found["findings"]]
        frame = pl.DataFrame(rows, schema={"said": pl.String, "try": pl.String}, orient="row")
        return Page.of(SWEEP_FINDINGS, frame, note=note, empty="The rules found nothing to say of this sweep.")
    frame = _points(found)
    shown = [column for column in SWEEP_POINTS.columns if frame[column.name].null_count() < frame.height]
    drill = "open run" if any(row["path"] for row in found["points"]) else ""
    return Page.of(SWEEP_POINTS, frame, columns=(*_axes(found), *shown), note=note, inside=drill)


def _counters(found: Json) -> Page:
    """What Nsight Compute counted: a row per point, and then per kind of kernels."""
    counted = found["counters"] or {"rows": []}
    columns = [field for field in CONFIGURATIONS.data_fields if field.screen and field.name != "configuration"]
    axes = found["axes"]
    rows = [
        {f"axis_{axis}": spelled(row[axis]) for axis in axes}
        | {
            field.name: _ns(row[field.json_key]) if field.name.endswith("_ns") else row[field.json_key]
            for field in columns
        }
        for row in sorted(counted["rows"], key=lambda row: row["kind"] != ALL)
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    shown = [field for field in columns if frame.height and frame[field.name].null_count() < frame.height]
    return Page.of(
        CONFIGURATIONS, frame, columns=(*_axes(found), *shown), empty="Nsight Compute measured no point of this sweep.",
        note="profiled launches, by kind of kernel; means weighted by time, active cycles or sectors",
    )  # fmt: skip


def _axes(found: Json) -> tuple[Field, ...]:
    return tuple(
        Field(f"axis_{axis}", axis, width=min(len(axis), 12), priority=0, about="what the runs differ in")
        for axis in found["axes"]
    )


def _points(found: Json) -> pl.DataFrame:
    """One row per point; times in ns. ``point`` is its label, by which findings lead to it."""
    numbers = ("images_per_s", "busy_percent", "kernels")
    rows = [
        {
            "point": ", ".join(f"{axis} {spelled(row[axis])}" for axis in found["axes"] if row[axis] is not None),
            **{f"axis_{axis}": spelled(row[axis]) for axis in found["axes"]},
            **{f"{key}_ns": _ns(row[f"{key}_us"]) for key in ("step", "std", "gpu")},
            **{key: None if row[key] is None else float(row[key]) for key in numbers},
            "gflops": None if row["flops"] is None else row["flops"] / 1e9,
            "seen": None if row["batch_seen"] == row.get("batch") else row["batch_seen"],
            "repeats": row["repeats"],
            "path": row["path"],
            "marks": " ".join([*row["findings"], row["problem"] or ""]).strip() or None,
        }
        for row in found["points"]
    ]
    floats = ("step_ns", "std_ns", "gpu_ns", *numbers, "gflops", "seen")
    texts = ("point", "path", *(f"axis_{axis}" for axis in found["axes"]), "marks")
    schema = {**dict.fromkeys(texts, pl.String), **dict.fromkeys(floats, pl.Float64), "repeats": pl.Int64}
    return pl.DataFrame(rows, schema=schema)


def _variants(found: Json) -> pl.DataFrame:
    rows = [
        {
            "label": label(one),
            "x": spelled(row["x"]),
            "base_ns": _ns(row["baseline_us"]),
            "variant_ns": _ns(row["variant_us"]),
            "speedup": row["speedup"],
            "work": row["work_removed_percent"],
            "lost": row["lost_percent"],
            "kernels": row["kernels_delta"],
            "gpu_ns": _ns(row["gpu_delta_us"]),
            "path": row["paths"][0],
            "path_b": row["paths"][1],
            "sure": "noise" if row["within_noise"] else "faster" if row["speedup"] > 1 else "slower",
        }
        for one in found["comparisons"]
        for row in one["points"]
    ]
    numbers = ("base_ns", "variant_ns", "speedup", "work", "lost", "kernels", "gpu_ns")
    schema = {
        **dict.fromkeys(("label", "x", "path", "path_b", "sure"), pl.String),
        **dict.fromkeys(numbers, pl.Float64),
    }
    return pl.DataFrame(rows, schema=schema)


def _kinds(found: Json) -> pl.DataFrame:
    rows = [
        {
            **{key: row[key] for key in ("comparison", "kind", "status", "name", "short_name")},
            "x": spelled(row["x"]),
            **{f"{side}_calls": row[f"{side}_calls"] for side in ("baseline", "variant")},
            **{f"{what}_ns": _ns(row[f"{what}_us"]) for what in ("baseline", "variant", "delta")},
        }
        for row in found["kinds"]
        if row["status"] != "same"
    ]
    texts = ("comparison", "kind", "status", "name", "short_name", "x")
    numbers = ("baseline_calls", "variant_calls", "baseline_ns", "variant_ns", "delta_ns")
    return pl.DataFrame(rows, schema={**dict.fromkeys(texts, pl.String), **dict.fromkeys(numbers, pl.Float64)})


def _ns(us: float | None) -> float | None:
    return None if us is None else us * 1000


def _empty(why: str) -> Page:
    text = (
        f"{printable(why)}\n\n"
        "tracetui open FOLDER      opens a folder of captures\n"
        "tracetui sweep TABLE.csv  reads a table\n\n"
        "This makes one and opens it:\n"
        "tracetui profile MODEL --sweep batch=1,2,4 --repeats 3"
    )
    return Page.of(SWEEP_POINTS, pl.DataFrame(), title="Sweep", empty=text, alone=True)
