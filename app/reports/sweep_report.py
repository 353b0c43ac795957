"""A sweep as text, Markdown and CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.charts.lines import Line, line_chart
from tracetui.app.reports.text_diff import signed_time
from tracetui.app.reports.text_findings import finding_lines, finding_markdown
from tracetui.app.reports.text_report import finish, title
from tracetui.app.reports.text_table import GAP, WIDTH, Column, Page
from tracetui.app.text.formats import cell_width, format_count, format_percent, format_us

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.analysis.base.rows import Json

CHART_ROWS = 14
SOURCES = {
    "index": "a sweep of tracetui profile",
    "runs": "launched runs",
    "captures": "captures whose names vary",
    "table": "a table",
}
Table = tuple[str, list[Column], list[list[str]]]
"""Heading, columns and cells."""


def sweep_text(found: Json, *, limit: int | None = None, ascii: bool = False, charts: bool = True) -> str:
    """The whole sweep as plain text of at most 80 columns; `limit` rows per list, null for all."""
    page = Page(limit, ascii, charts)
    blocks = [
        [*title(f"tracetui sweep: {Path(found['path']).name or found['path']}", page)[:-1], *_head(found, page)],
        page.paragraph(verdict(found)),
        finding_lines(found, page, whole=False),
        _chart(found, page) if page.charts else [],
    ]
    for heading, columns, cells in (points_table(found, page), *comparison_tables(found, page)):
        shown = cells[:limit]
        blocks.append([page.heading(heading, "", len(shown), len(cells)), *page.table(columns, shown)])
    blocks.append([line for text in accounts(found) for line in page.field("-", text, width=2)])
    if len(found["comparisons"]) > 1:
        blocks += [page.paragraph(f"{label(one)}: {one['crossover']['verdict']}.") for one in found["comparisons"]]
    blocks.append(page.paragraph(abstained(found)))
    blocks.append([line for note in found["notes"] for line in page.paragraph(f"Not used: {note}")])
    lines: list[str] = []
    for block in blocks:
        lines += [*block, ""] if block else []
    return finish(lines)


def sweep_markdown(found: Json, *, limit: int | None = None, ascii: bool = False, charts: bool = True) -> str:
    """The whole sweep as Markdown; `limit` rows per list, null for all; `ascii` is about the chart."""
    from tracetui.app.reports.markdown_report import code, plain

    page = Page(limit, ascii, charts)
    lines = [f"# tracetui sweep: {plain(Path(found['path']).name or found['path'])}", ""]
    lines += [plain(" ".join(_head(found, page))), "", plain(verdict(found)), ""]
    lines += finding_markdown(found, page, plain, code)
    if page.charts and (chart := _chart(found, page)):
        lines += ["```text", *chart, "```", ""]
    for heading, columns, cells in (points_table(found, page), *comparison_tables(found, page)):
        rule = ["--:" if column.right else ":--" for column in columns]
        rows = [[column.title for column in columns], rule, *([plain(cell) for cell in row] for row in cells[:limit])]
        lines += [f"### {plain(heading)}", "", *("| " + " | ".join(row) + " |" for row in rows), ""]
    lines += [f"- {plain(text)}" for text in accounts(found)]
    lines += [f"- {plain(label(one))}: {plain(one['crossover']['verdict'])}" for one in found["comparisons"]]
    lines += [f"- not used: {plain(note)}" for note in found["notes"]]
    return "\n".join(lines).rstrip("\n") + "\n"


def sweep_csv(found: Json) -> str:
    """The points, one line each."""
    from tracetui.analysis.report.sweep import POINT_KEYS
    from tracetui.app.reports.csv_report import plain_csv

    rows = [{**row, "findings": " ".join(row["findings"])} for row in found["points"]]
    return plain_csv(rows, (*found["axes"], *POINT_KEYS))


def verdict(found: Json) -> str:
    """The one sentence that answers what the sweep was made for."""
    if (wrong := next((row for row in found["findings"] if row["severity"] == "invalid"), None)) is not None:
        return f"Invalid: {wrong['title']}."
    if not found["comparisons"]:
        if "capture" in found["axes"]:
            return "No variants to compare: the names of these captures tell nothing but that they differ."
        return "No two variants to compare: the points below differ in size only."
    best = next((one for one in found["comparisons"] if one["crossover"]["value"] is not None), found["comparisons"][0])
    more = f" ({len(found['comparisons'])} comparisons below)" if len(found["comparisons"]) > 1 else ""
    return f"{label(best)}: {best['crossover']['verdict']}{more}."


def accounts(found: Json) -> list[str]:
    """What of the step changed from a baseline to its variant, at the smallest and the largest size."""
    rows = [item for row in found["findings"] if row["id"] == "D6" for item in row["evidence"]]
    return [f"{item['label']}: {item['value']}" for item in rows]


def abstained(found: Json) -> str:
    """What rules could not judge, and why; empty where all could."""
    reasons: dict[str, list[str]] = {}
    for row in found["findings_abstained"]:
        reasons.setdefault(row["missing"], []).append(row["id"])
    said = "; ".join(f"{', '.join(ids)}: {missing}" for missing, ids in reasons.items())
    return f"Could not judge: {said}" if said else ""


def is_invalid(found: Json) -> bool:
    """Whether its points say nothing, so that variants are not compared."""
    return any(row["severity"] == "invalid" for row in found["findings"])


def label(one: Json) -> str:
    """``keep 0.1 against 1, img_size 224``."""
    also = "".join(f", {name} {spelled(value)}" for name, value in one["fixed"].items())
    return f"{one['axis']} {spelled(one['variant'])} against {spelled(one['baseline'])}{also}"


def spelled(value: object) -> str:
    """An axis' value as a person reads it."""
    return f"{value:g}" if isinstance(value, int | float) else "-" if value is None else str(value)


def _head(found: Json, page: Page) -> list[str]:
    runs = sum(row["repeats"] for row in found["points"])
    axes = " x ".join(found["axes"]) or "one point"
    return page.paragraph(
        f"{SOURCES[found['source']].capitalize()}: {len(found['points'])} points over {axes}, {runs} runs; "
        f"a step is {found['base']}{busy_base(found)}."
    )


def busy_base(found: Json) -> str:
    """What `busy` is a share of, where that is not the step beside it: ``, busy of the profiled steps``, else empty."""
    from tracetui.analysis.sweeps.folder import CLEAN

    known = any(row["busy_percent"] is not None for row in found["points"])
    return ", busy of the profiled steps" if known and found["base"] == CLEAN else ""


def points_table(found: Json, page: Page) -> Table:
    """One row per point; columns that no point fills are left out."""
    optional: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("std", "std_us", page.time),
        ("samples/s", "images_per_s", _rate),
        ("seen", "batch_seen", lambda v: "-" if v is None else f"{v:.3g}"),
        ("kernels", "kernels", lambda v: format_count(None if v is None else round(v))),
        ("GPU", "gpu_us", page.time),
        ("busy", "busy_percent", format_percent),
        ("FLOPs", "flops", _flops),
    ]
    filled = [entry for entry in optional if any(row[entry[1]] is not None for row in found["points"])]
    if all(row["batch_seen"] in (None, row.get("batch")) for row in found["points"]):
        filled = [entry for entry in filled if entry[0] != "seen"]
    many = any(row["repeats"] > 1 for row in found["points"])
    columns = [
        *(Column(axis, right=True) for axis in found["axes"]),
        Column("step"),
        *(Column(heading) for heading, _, _ in filled),
        *([Column("runs")] if many else []),
        Column("", right=False, share=1),
    ]
    cells = [
        [
            *(spelled(row[axis]) for axis in found["axes"]),
            page.time(row["step_us"]),
            *(write(row[key]) for _, key, write in filled),
            *([str(row["repeats"])] if many else []),
            " ".join([*row["findings"], row["problem"] or ""]).strip(),
        ]
        for row in found["points"]
    ]
    if not any(row[-1] for row in cells):
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    return "Points", *_fitting(columns, cells, ("seen", "FLOPs", "std", "busy", "runs", "kernels"))


def comparison_tables(found: Json, page: Page) -> list[Table]:
    """A table per variant: its speed-up beside the work removed, at each size."""
    tables: list[Table] = []
    if is_invalid(found):
        return tables
    for one in found["comparisons"]:
        rows = one["points"]
        optional: list[tuple[str, str, Callable[[float | None], str]]] = [
            ("less work", "work_removed_percent", format_percent),
            ("lost", "lost_percent", lambda v: "-" if v is None or v < 0 else format_percent(v)),
            ("kernels", "kernels_delta", lambda v: "-" if v is None else f"{v:+,.0f}"),
            ("GPU", "gpu_delta_us", lambda v: signed_time(v, page)),
        ]
        filled = [entry for entry in optional if any(row[entry[1]] is not None for row in rows)]
        columns = [
            Column(one["x_axis"] or ""), Column(spelled(one["baseline"])), Column(spelled(one["variant"])),
            Column("speed-up"), *(Column(heading) for heading, _, _ in filled), Column("", right=False),
        ]  # fmt: skip
        cells = [
            [
                spelled(row["x"]),
                page.time(row["baseline_us"]),
                page.time(row["variant_us"]),
                _speedup(row),
                *(write(row[key]) for _, key, write in filled),
                {None: "", True: "noise", False: "faster" if row["speedup"] > 1 else "slower"}[row["within_noise"]],
            ]
            for row in rows
        ]
        tables.append((label(one), *_fitting(columns, cells, ("GPU", "kernels", "lost"))))
    return tables


def _fitting(
    columns: list[Column], cells: list[list[str]], spare: Sequence[str]
) -> tuple[list[Column], list[list[str]]]:
    """Without the first spare columns, as far as the table would be too wide."""
    for name in spare:
        widths = [
            max(map(cell_width, (column.title, *cell))) for column, cell in zip(columns, _turned(cells), strict=True)
        ]
        if sum(widths) + len(GAP) * len(widths) <= WIDTH:
            break
        kept = [n for n, column in enumerate(columns) if column.title != name]
        columns, cells = [columns[n] for n in kept], [[row[n] for n in kept] for row in cells]
    return columns, cells


def _turned(cells: list[list[str]]) -> list[tuple[str, ...]]:
    return list(zip(*cells, strict=True))


def chart_lines(found: Json) -> tuple[str, list[Line]]:
    """The x axis and a line of step times (µs) for each combination of the other axes."""
    axis = found["x_axis"]
    lines: dict[str, list[tuple[float, float]]] = {}
    spread: dict[str, list[tuple[float, float, float]]] = {}
    for row in found["points"]:
        x = row.get(axis) if axis else None
        if isinstance(x, int | float) and row["step_us"] is not None:
            rest = [f"{name} {spelled(row[name])}" for name in found["axes"] if name != axis and row[name] is not None]
            name = ", ".join(rest) or "step time"
            lines.setdefault(name, []).append((float(x), row["step_us"]))
            spread.setdefault(name, []).extend(deviation(float(x), row))
    return axis or "", [Line(name, tuple(sorted(points)), tuple(spread[name])) for name, points in lines.items()]


def deviation(x: float, point: Json) -> list[tuple[float, float, float]]:
    """The stretch of a point's step times, a standard deviation to both sides; none of a point without repeats."""
    step, spread = point["step_us"], point["std_us"]
    return [(x, step - spread, step + spread)] if spread else []


def _chart(found: Json, page: Page) -> list[str]:
    axis, lines = chart_lines(found)
    if not any(len(line.points) > 1 for line in lines):
        return []
    drawn = [Line(page.text(line.name), line.points, line.spread) for line in lines]
    return line_chart(
        drawn, WIDTH, CHART_ROWS, x_title=page.text(axis),
        y_title="step time", x_label=lambda value: f"{value:g}",
        y_label=lambda value: format_us(value, ascii=page.ascii), ascii=page.ascii,
    )  # fmt: skip


def _speedup(row: Json) -> str:
    error = row["speedup_error"]
    return f"{row['speedup']:.2f}" + (f" ±{2 * error:.2f}" if error is not None else "")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _flops(value: float | None) -> str:
    if value is None:
        return "-"
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.2f} {unit}"
    return f"{value:.0f}"
