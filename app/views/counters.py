"""Counters: what Nsight Compute measured, by kernel; inside, launches, their metrics and ncu's advice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from textual.app import ComposeResult
from textual.widgets import Static

from tracetui.analysis.base.json_values import Json
from tracetui.analysis.base.number_format import format_count, format_ns, format_percent
from tracetui.analysis.counters.compared import ALL, COMMON, Compared, compare, labels, reports_of
from tracetui.analysis.counters.counters import (
    kernel_counters,
    kernel_rules,
    launch_counters,
    launch_metrics,
    metric_table,
)
from tracetui.analysis.counters.metrics import not_collected
from tracetui.analysis.counters.source_lines import has_lines, is_page, source_lines
from tracetui.analysis.kernels import size_text
from tracetui.analysis.report.counters import by_file
from tracetui.analysis.report.sections import roofs
from tracetui.analysis.roofline.counters import counts_flops
from tracetui.analysis.roofline.roofline import Roofline, roofline
from tracetui.analysis.tables.nsight.counters import (
    ALL_METRICS,
    COUNTER_LAUNCHES,
    COUNTER_METRICS,
    COUNTERS,
    FILE,
    NCU_RULES,
    ROOFLINE,
    SOURCE_LINES,
)
from tracetui.analysis.tables.table import Field, Table
from tracetui.app.reports.content.counters import LABELS, change, measured, value
from tracetui.app.reports.content.pictures import BARS, letters
from tracetui.app.reports.content.roofline import chart_lines, chart_svg, roofs_text
from tracetui.app.reports.counter_text import (
    HOW_TO,
    caution_text,
    change_text,
    gaps_text,
    profiled_text,
    unit_beside,
    value_text,
)
from tracetui.app.text.fitting import printable
from tracetui.app.text.names import tell_apart
from tracetui.app.text.tool_words import WORDS
from tracetui.app.views.common.chart import ViewChart
from tracetui.app.views.common.page import Page
from tracetui.app.views.common.table_view import TableView
from tracetui.app.widgets.detail_pane import DetailPane
from tracetui.parsers import Trace

LEAST_ROWS, MOST_ROWS = 20, 30
"""Lines of a tab below which the table needs all of them; the most that a chart takes."""
TABLE_ROWS = 16
"""What is left to the table where there is room."""


OF_KINDS = (
    "total_ns", "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent",
    "occupancy_percent", "tensor_cores_percent",
)  # fmt: skip
"""What is shown of each kind of kernels where files are side by side."""
NO_COUNTERS = "No hardware counters here.\n\n{}"
ONE_FILE = "One report is open.\n\nOpen several together to see them side by side:\n\ntracetui open A.csv B.csv"


class CountersView(TableView):
    """One row per profiled kernel; launches, rules and metrics beside them, and several reports side by side."""

    TAB = "counters"
    ABOVE = True
    TABLES = ("kernels", "launches", "rules", "lines", "metrics", "files", "roofline")

    def __init__(self) -> None:
        super().__init__()
        self._gaps = ""
        """The metrics that were not collected; shown under the table."""
        self._roofline: Roofline | None = None
        """Of the table in view, where that is the roofline."""

    def content(self) -> ComposeResult:
        """The table with a line under it for what was not collected."""
        for widget in super().content():
            if isinstance(widget, DetailPane):
                yield Static(id="gaps", markup=False)
            yield widget

    def _show_page(self) -> None:
        super()._show_page()
        gaps = self.query_one("#gaps", Static)
        gaps.update(self.host.own(self._gaps))
        gaps.display = bool(self._gaps) and self.state is not None and self.state.page.frame.height > 0

    @property
    def _drawn(self) -> Roofline | None:
        """The roofline, where that is in view."""
        page = self.state.page if self.state is not None else None
        return self._roofline if page is not None and page.id == ROOFLINE.id and page.frame.height else None

    def above(self, width: int, height: int) -> list[str]:
        """The roofline and its roofs in words, above its table."""
        if self._drawn is None or height < LEAST_ROWS:
            return []
        ascii, rows, peaks = self.session.ascii, self._drawn.points.to_dicts(), roofs(self._drawn)
        room = min(max(height - TABLE_ROWS, height // 2), MOST_ROWS)
        lines = chart_lines(rows, peaks, width - 2, room, ascii=ascii)
        return lines + [f" {printable(text, ascii=ascii)}" for text in roofs_text(rows, peaks)]

    def chart(self) -> ViewChart | None:
        """The roofline, where that is in view and a roof is known; notes say what its letters stand for."""
        if self._drawn is None or self.state is None:
            return super().chart()
        page, ascii = self.state.page, self.session.ascii
        named = self._drawn.points.filter(pl.col("letter").fill_null("") != "").head(BARS)
        rows, peaks = named.to_dicts(), roofs(self._drawn)
        if not chart_lines(rows, peaks, 80, 10, ascii=ascii):
            return super().chart()
        spelled = tell_apart(named).select("letter", "short_name", "name").iter_rows()
        notes = letters({letter: str(short or name) for letter, short, name in spelled}, ascii=ascii)
        return ViewChart(page.title, page.note, chart_svg(rows, peaks, ascii=ascii), notes)

    @property
    def _traces(self) -> tuple[Trace, ...]:
        return self.session.runs["a"].of_kind("ncu")

    @property
    def _compared(self) -> tuple[Trace, ...]:
        """Returns the reports of runs A and B if B is open, else those of the folder that A belongs to."""
        runs = self.session.runs
        if "b" in runs:
            return self._traces + runs["b"].of_kind("ncu")
        key = ("counter_reports", runs["a"].path)
        found, _ = self.session.cached(key, lambda: reports_of(runs["a"]))
        return tuple(found)

    @property
    def _several(self) -> bool:
        """Whether there may be something to compare, without opening files."""
        runs = self.session.runs
        others = bool(runs["a"].others) and runs["a"].main.info.kind == "ncu"
        return others or len(self._traces) + (len(runs["b"].of_kind("ncu")) if "b" in runs else 0) > 1

    @property
    def _counts_flops(self) -> bool:
        """Whether a report has counters that FLOPs are made of."""

        def work() -> bool:
            return any(counts_flops(trace) for trace in self._traces)

        return self.session.cached("counts_flops", work)

    @property
    def tables(self) -> tuple[str, ...]:
        """Returns the tables that there are counters for; without any the roofline from shapes."""
        gone = {"files"} if not self._several else set()
        gone |= set() if self._counts_flops else {"roofline"}
        gone |= set() if any(map(has_lines, self._traces)) else {"lines"}
        return tuple(table for table in self.TABLES if table not in gone) if self._traces else ("roofline",)

    # --- pages

    def root(self) -> Page:
        """The table in view; without counters, how to get them."""
        traces = self._traces
        self._gaps = ""
        if self.kind == "roofline" or not traces:
            page = self._roofline_page()
            if traces or page.frame.height:
                return page
            how_to = WORDS[self.session.trace().info.kind].advice.get("counters", HOW_TO)
            return Page("counters", "Counters", pl.DataFrame(), (), "kernels", empty=NO_COUNTERS.format(how_to))
        if self.kind == "lines" or all(map(is_page, traces)):
            lines = self.session.cached("source_lines", lambda: pl.concat(map(source_lines, traces)))
            return Page.of(SOURCE_LINES, lines, note=SOURCE_LINES.base, alone=True)
        launches = self._launches()
        self._gaps = self._missing()
        note = f"{profiled_text(int(launches['launches'].sum()), launches['name'].n_unique())}"
        if launches["duration_ns"].count():
            note += f", {format_ns(float((launches['duration_ns'] * launches['launches']).sum()))}"
        if self.kind == "launches":
            return self._launch_page(launches, "Profiled launches", note)
        if self.kind == "rules":
            return self._rule_page(note)
        if self.kind == "metrics":
            return self._all_metrics(note)
        if self.kind == "files":
            return self._files_page()
        return Page.of(
            COUNTERS,
            self._kernels(),
            title="Counters",
            columns=self._columns(COUNTERS),
            note=f"{note} · means of launches",
            empty="No kernel was profiled.\n\nCheck --kernel-name and --launch-skip of the ncu command.",
        )

    def inside(self, page: Page, row: Mapping[str, Any]) -> Callable[[], Page] | None:
        """A kernel's launches; a launch's metrics and rules."""
        if page.id == "counters":
            name, file = row["name"], row["file_number"]
            title = str(row.get("short_name") or name)

            def work() -> Page:
                launches = self._launches()
                mine = launches.filter((pl.col("name") == name) & (pl.col("file_number") == file))
                return self._launch_page(mine, title, profiled_text(int(mine["launches"].sum()), 1))

            return work
        if page.id == "counter_launches":
            return lambda: self._metrics_page(row)
        return None

    def _columns(self, table: Table) -> tuple[Field, ...]:
        """The file is named where there are several."""
        return tuple(column for column in table.columns if len(self._traces) > 1 or column is not FILE)

    def _per_file(self, table: Callable[[Trace], pl.DataFrame]) -> pl.DataFrame:
        """A table of every file, with the file's name and number."""
        traces = self._traces
        names = labels([trace.source.path for trace in traces])
        return pl.concat(
            table(trace).with_columns(file=pl.lit(names[number]), file_number=pl.lit(number))
            for number, trace in enumerate(traces)
        )

    def _launches(self) -> pl.DataFrame:
        """The launches of every file."""
        return self.session.cached("counter_launches", lambda: self._per_file(launch_counters))

    def _kernels(self) -> pl.DataFrame:
        def work() -> pl.DataFrame:
            table = self._per_file(kernel_counters).with_columns(size_text("grid"), size_text("block"), _advice())
            return tell_apart(table.sort("total_ns", "name", descending=[True, False], nulls_last=True))

        return self.session.cached("counter_kernels", work)

    def _missing(self) -> str:
        found = []
        launches = self._launches()
        for number, trace in enumerate(self._traces):
            gaps = not_collected(trace, launches.filter(pl.col("file_number") == number))
            if gaps is not None:
                found.append(gaps)
        if not found:
            return ""
        what = dict.fromkeys(word for gaps in found for word in gaps.what)
        return gaps_text(what, found[0].command)

    def _roofline_page(self) -> Page:
        """Returns the page that shows how near kernels come to the GPU's roofs, from counters and operators' shapes."""
        run, selection = self.session.runs["a"], self.session.selection()
        key = ("roofline", selection.trace.source.path)
        found = self._roofline = self.session.cached(key, lambda: roofline(run, selection))
        notes = [f"{format_percent(found.covered_percent)} of kernel time"] if found.covered_percent is not None else []
        notes += [] if self._traces or not found.points.height else ["by operators' shapes, without ncu"]
        frame = found.points.with_columns(
            unknown_text=pl.col("unknown").list.join("; "),
            gflops=pl.col("achieved_flops") / 1e9,
            gbytes=pl.col("achieved_bytes") / 1e9,
            mflop=pl.col("flops") / 1e6,
        )
        return Page.of(
            ROOFLINE,
            tell_apart(frame) if frame.height else frame,
            note=" · ".join(notes),
            empty="No kernel's work is known: the counters hold no FLOPs, or operators were recorded without shapes.",
        )

    def _launch_page(self, launches: pl.DataFrame, title: str, note: str) -> Page:
        return Page.of(
            COUNTER_LAUNCHES,
            launches.with_columns(size_text("grid"), size_text("block"), _advice()),
            title=title,
            columns=self._columns(COUNTER_LAUNCHES),
            note=note,
            sort=("device_row", False),
            inside="metrics",
        )

    def _metrics_page(self, row: Mapping[str, Any]) -> Page:
        """Returns everything about one launch: first ncu's advice, then each section's metrics."""
        number = int(row["device_row"])
        trace = self._traces[int(row["file_number"])]
        metrics = _shown(launch_metrics(trace, number), "value", "shown", "text")
        said = [
            {
                "metric": rule["name"],
                "shown": _gain(rule["speedup_percent"], rule["speedup_type"]) or str(rule["kind"]).upper(),
                "section": rule["section"],
                "value": rule["speedup_percent"],
                "unit": "%" if rule["speedup_percent"] is not None else None,
                "text": rule["text"],
            }
            for rule in row["rules"] or []
        ]
        said.sort(key=lambda rule: -(rule["value"] or 0))
        schema = {column.name: metrics.schema[column.name] for column in COUNTER_METRICS.columns}
        rules = pl.DataFrame(said, schema=schema)
        return Page.of(
            COUNTER_METRICS,
            pl.concat([rules, metrics.select(list(schema))]),
            title=f"#{number}",
            noun="metrics and rules",
            note=f"{metrics.height:,} metrics, {len(said)} rules",
            key="metric",
        )

    def _rule_page(self, note: str) -> Page:
        def work() -> pl.DataFrame:
            rules = self._per_file(lambda trace: kernel_rules(launch_counters(trace)))
            return rules.sort("gain_ns", "speedup_percent", descending=True, nulls_last=True)

        return Page.of(
            NCU_RULES,
            self.session.cached("counter_rules", work),
            columns=self._columns(NCU_RULES),
            note=f"{NCU_RULES.base} · {note}",
            empty=(
                "No rules in this file.\n\nThe raw page has none: print the details page of the same report with\n\n"
                "ncu --import REPORT.ncu-rep --csv --page details > details.csv"
            ),
            sort=("gain_ns", True),
            key="name",
        )

    def _all_metrics(self, note: str) -> Page:
        def work() -> pl.DataFrame:
            table = self._per_file(metric_table)
            beside = pl.Series("beside", [unit_beside(unit) or "" for unit in table["unit"]], pl.String)
            table = table.with_columns(beside, unit=pl.when(beside == "").then("unit"))
            for column, into in (("mean_value", "mean"), ("min_value", "least"), ("max_value", "most")):
                table = _shown(table, column, into, "text")
            return table

        table = self.session.cached("counter_metrics", work)
        columns = _uncut(self._columns(ALL_METRICS), table.filter(pl.col("mean_value").is_not_null()))
        return Page.of(ALL_METRICS, table, title="Metrics", columns=columns, note=note, key="metric")

    def _files_page(self) -> Page:
        traces = self._compared
        if len(traces) < 2:
            return Page("counter_files", "Side by side", pl.DataFrame(), (), "metrics", empty=ONE_FILE)
        key = ("counter_files", *(trace.source.path for trace in traces))
        found = self.session.cached(key, lambda: compare(traces))
        profiled = list(found.files.select("launches", "kernels").iter_rows())
        self._gaps = caution_text(profiled, same=found.same_kernels)
        rows = self.session.cached((*key, "configurations"), lambda: by_file(traces)["configurations"])
        frame, columns = side_by_side(found, rows, ascii=self.session.ascii)
        return Page(
            id="counter_files",
            title="Side by side",
            frame=frame,
            columns=columns,
            noun="rows",
            note="over the profiled launches of each file, weighted by time",
            key="row",
        )


def _uncut(columns: Iterable[Field], numbers: pl.DataFrame) -> tuple[Field, ...]:
    """The columns of numbers written as text as wide as these; names give way first."""

    def width(column: Field) -> int:
        if column.kind != "text" or column.flex or not numbers.height:
            return column.width
        return max(column.width, int(numbers[column.name].str.len_chars().max()))  # type: ignore[arg-type]

    return tuple(replace(column, width=width(column)) for column in columns)


def _advice() -> pl.Expr:
    kinds = pl.col("rules").list.eval(pl.element().struct.field("kind") == "opt").list.sum()
    return kinds.fill_null(0).cast(pl.Int64).alias("advice")


def _gain(percent: float | None, kind: str | None) -> str:
    if percent is None:
        return ""
    return f"gain {percent:.1f} %" + (f", {kind}" if kind else "")


def _shown(frame: pl.DataFrame, value: str, into: str, text: str) -> pl.DataFrame:
    """Adds a column with the values as text."""
    cells = frame.select(value, "unit", text).iter_rows()
    return frame.with_columns(pl.Series(into, [value_text(*cell) for cell in cells], pl.String))


def side_by_side(
    found: Compared, configurations: Sequence[Json], *, ascii: bool = False
) -> tuple[pl.DataFrame, tuple[Field, ...]]:
    """The comparison as a table: what was profiled, the metrics of each file, by kind and kernel by kernel.

    Args:
        found: the files, kernel by kernel.
        configurations: the report's table of the same files, in the same order.
        ascii: whether only ASCII is shown.
    """
    names = found.files["label"].to_list()
    pair = len(names) == 2
    rows = [("all", what, list(map(format_count, found.files[what]))) for what in ("launches", "kernels")]
    if not found.same_kernels:
        rows.append(("common", "launches", list(map(format_count, found.files["common_launches"]))))
    for kind in dict.fromkeys(row["kind"] for row in configurations):
        of_kind = {row["configuration"]: row for row in configurations if row["kind"] == kind}
        mine = [of_kind.get(name) for name in dict.fromkeys(row["configuration"] for row in configurations)]
        for field in measured(mine):
            if kind in (ALL, COMMON) or field.name in OF_KINDS:
                cells = [value(field, row, ascii=ascii) for row in mine]
                moved = [change(field, mine[1], mine[0], ascii=ascii)] if pair else []
                rows.append((kind, LABELS[field.name], cells + moved))
    kernels = {name: (short, launches) for name, short, launches in found.kernels.iter_rows()}
    for (kernel,), metrics in found.metrics.filter(pl.col("of") == "kernel").group_by("kernel", maintain_order=True):
        short, launches = kernels[kernel]
        rows.append((short, "launches", list(map(format_count, launches))))
        for row in metrics.iter_rows(named=True):
            cells = [value_text(number, row["unit"], ascii=ascii) for number in row["values"]]
            moved = [change_text(row["changes"][1], row["unit"], ascii=ascii)] if pair else []
            rows.append((short, row["label"], cells + moved))
    columns = [
        Field(
            "of",
            "Launches of",
            width=12,
            priority=0,
            flex=True,
            about="all profiled ones; common: of kernels that every file profiled; a kind of kernels; or one kernel",
        ),
        Field(
            "label",
            "Metric",
            width=21,
            priority=0,
            about="over those launches that have it, weighted by time; of one kernel each launch counts the same",
        ),
    ]
    for number, (name, path) in enumerate(zip(names, found.files["path"], strict=True)):
        columns.append(Field(f"file{number}", name, width=14, priority=0, flex=True, about=path))
    if len(names) == 2:
        about = "second file less the first; pt: percentage points"
        columns.append(Field("file2", "Change", width=12, priority=1, about=about))
    schema = {"row": pl.Int64(), **{column.name: pl.String() for column in columns}}
    lines = [
        dict(zip(schema, (number, of, label, *cells), strict=False)) for number, (of, label, cells) in enumerate(rows)
    ]
    return pl.DataFrame(lines, schema=schema), tuple(columns)
