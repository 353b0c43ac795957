"""A sweep: its verdict, points and variants."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_share, format_signed_us, format_us
from tracetui.analysis.tables.runs import SWEEP_POINTS
from tracetui.app.charts.lines import Line, line_chart, lines_svg
from tracetui.app.reports.content.captures import capture_parts, rows_to_plot
from tracetui.app.reports.content.ncu import sweep as sweep_counters
from tracetui.app.reports.content.sweeps.variants import kind_blocks, speedup_chart
from tracetui.app.reports.csv_report import plain_csv
from tracetui.app.reports.finding_words import missing_by_reason
from tracetui.app.reports.layout import GAP, WIDTH, Shown
from tracetui.app.reports.parts import Block, Chart, FindingList, Sentences, Title, cell, filled, shown
from tracetui.app.text.fitting import cell_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part

CHART_ROWS = 14
OPTIONAL = ("std_ns", "images_per_s", "seen", "kernels", "gpu_ns", "busy_percent", "gflops")
"""Columns of points that are left out where no point fills them."""
SOURCES = {
    "index": "a sweep of tracetui profile",
    "runs": "launched runs",
    "captures": "captures whose names vary",
    "table": "a table",
}


def sweep_parts(found: Json, layout: Layout) -> Iterator[Part]:
    """The whole sweep.

    Args:
        found: what `analysis.report.sets.sweep.sweep_report` returned.
        layout: rows per list, pictures, ASCII.
    """
    yield Title(f"tracetui sweep: {Path(found['path']).name or found['path']}")
    if found["counters"] is not None and not any(row["step_us"] for row in found["points"]):
        yield Sentences((sweep_counters.head(found),))
        yield from sweep_counters.blocks(found, layout)
        yield Sentences(tuple(f"Not used: {note}" for note in found["notes"]))
        return
    yield Sentences((_head(found),))
    yield Sentences((verdict(found),), lead=True)
    yield FindingList(found)
    yield chart_block(found, layout)
    for block in (points_block(found, layout), *comparison_blocks(found, layout)):
        yield replace(block, cells=block.cells[: layout.limit], whole=len(block.cells))
    yield Sentences(tuple(accounts(found)), bullets=True)
    if not is_invalid(found):
        yield from kind_blocks(found, layout)
    yield from _captures(found, layout)
    if len(found["comparisons"]) > 1:
        yield Sentences(tuple(f"{label(one)}: {one['crossover']['verdict']}." for one in found["comparisons"]))
    if found["counters"] is not None:
        yield from sweep_counters.blocks(found, layout)
    yield Sentences((abstained(found),) if abstained(found) else ())
    yield Sentences(tuple(f"Not used: {note}" for note in found["notes"]))


def _captures(found: Json, layout: Layout) -> Iterator[Part]:
    """What the ranges of each recording measure, as `report --section captures` has it."""
    if found["captures"]:
        yield from capture_parts(found["captures"], layout)
        same = f"The same of chosen steps or devices: tracetui report {shlex.quote(found['path'])} --section captures"
        yield Sentences((*rows_to_plot(found["captures"]), same))


def sweep_csv(found: Json) -> str:
    """The points, one line each; where Nsight Compute measured them, a line per point and kind of kernels."""
    if found["counters"] is not None:
        return sweep_counters.counters_csv(found)
    rows = [{**row, "findings": " ".join(row["findings"])} for row in found["points"]]
    return plain_csv(rows, (*found["axes"], *SWEEP_POINTS.keys))


def verdict(found: Json) -> str:
    """Returns one sentence that answers the question of the sweep."""
    if (wrong := next((row for row in found["findings"] if row["severity"] == "invalid"), None)) is not None:
        return f"Invalid: {wrong['title']}."
    if found["counters"] is not None and not any(row["step_us"] for row in found["points"]):
        return (
            "Reports of Nsight Compute hold no steps to compare: their counters stand side by side in the tab Counters,"
            " and `tracetui sweep` prints them by point."
        )
    if not found["comparisons"]:
        if "capture" in found["axes"]:
            return "No variants to compare: the names of these captures do not say how they differ."
        return "No two variants to compare: the points below differ in size only."
    best = next((one for one in found["comparisons"] if one["crossover"]["value"] is not None), found["comparisons"][0])
    more = f" ({len(found['comparisons'])} comparisons below)" if len(found["comparisons"]) > 1 else ""
    return f"{label(best)}: {best['crossover']['verdict']}{more}."


def accounts(found: Json) -> list[str]:
    """Says what changed in the step from a baseline to its variant, at the smallest and the largest size."""
    rows = [item for row in found["findings"] if row["id"] == "D6" for item in row["evidence"]]
    return [f"{item['label']}: {item['value']}" for item in rows]


def abstained(found: Json) -> str:
    """What rules could not judge, and why; empty where all could."""
    said = "; ".join(f"{rules}: {missing}" for rules, missing in missing_by_reason(found["findings_abstained"]))
    return f"Could not judge: {said}" if said else ""


def is_invalid(found: Json) -> bool:
    """Returns whether its points are invalid, so that variants are not compared."""
    return any(row["severity"] == "invalid" for row in found["findings"])


def label(one: Json) -> str:
    """``keep 0.1 against 1, img_size 224``."""
    also = "".join(f", {name} {spelled(value)}" for name, value in one["fixed"].items())
    return f"{one['axis']} {spelled(one['variant'])} against {spelled(one['baseline'])}{also}"


def spelled(value: object) -> str:
    """An axis' value as a person reads it."""
    return f"{value:g}" if isinstance(value, int | float) else "-" if value is None else str(value)


def _head(found: Json) -> str:
    runs = sum(row["repeats"] for row in found["points"])
    axes = " x ".join(found["axes"]) or "one point"
    return (
        f"{SOURCES[found['source']].capitalize()}: {len(found['points'])} points over {axes}, {runs} runs; "
        f"a step is {found['base']}{busy_base(found)}."
    )


def busy_base(found: Json) -> str:
    """What `busy` is a share of, where that is not the step beside it: ``, busy of the profiled steps``, else empty."""
    from tracetui.analysis.sweeps.folder import CLEAN

    known = any(row["busy_percent"] is not None for row in found["points"])
    return ", busy of the profiled steps" if known and found["base"] == CLEAN else ""


def points_block(found: Json, layout: Layout) -> Block:
    """One row per point; columns that no point fills are left out."""
    rows = [{**row, "gflops": None if row["flops"] is None else row["flops"] / 1e9} for row in found["points"]]
    optional = filled(SWEEP_POINTS.chosen(OPTIONAL), rows)
    if all(row["batch_seen"] in (None, row.get("batch")) for row in rows):
        optional = [one for one in optional if one.name != "seen"]
    many = any(row["repeats"] > 1 for row in found["points"])
    fields = (SWEEP_POINTS.field("step_ns"), *optional, *([SWEEP_POINTS.field("repeats")] if many else []))
    columns = [*(Shown(axis) for axis in found["axes"]), *map(shown, fields), Shown("", right=False, share=1)]
    cells = [
        [
            *(spelled(row[axis]) for axis in found["axes"]),
            *(cell(one, row, ascii=layout.ascii) for one in fields),
            " ".join([*row["findings"], row["problem"] or ""]).strip(),
        ]
        for row in rows
    ]
    if not any(row[-1] for row in cells):
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    columns, cells = fitting(columns, cells, ("seen", "GFLOPs", "±", "busy%", "runs", "kernels"))
    return Block(SWEEP_POINTS.title, columns=tuple(columns), cells=cells)


def comparison_blocks(found: Json, layout: Layout) -> list[Block]:
    """A table per variant: its speed-up beside the work removed, at each size."""
    blocks: list[Block] = []
    if is_invalid(found):
        return blocks
    for one in found["comparisons"]:
        rows = one["points"]
        optional: list[tuple[str, str, Callable[[float | None], str]]] = [
            ("less work%", "work_removed_percent", format_share),
            ("lost%", "lost_percent", lambda v: "-" if v is None or v < 0 else format_share(v)),
            ("kernels", "kernels_delta", lambda v: "-" if v is None else f"{v:+,.0f}"),
            ("GPU", "gpu_delta_us", lambda v: format_signed_us(v, ascii=layout.ascii)),
        ]
        filled = [entry for entry in optional if any(row[entry[1]] is not None for row in rows)]
        columns = [
            Shown(one["x_axis"] or ""), Shown(spelled(one["baseline"])), Shown(spelled(one["variant"])),
            Shown("speed-up"), *(Shown(heading) for heading, _, _ in filled), Shown("", right=False),
        ]  # fmt: skip
        cells = [
            [
                spelled(row["x"]),
                layout.time(row["baseline_us"]),
                layout.time(row["variant_us"]),
                _speedup(row),
                *(write(row[key]) for _, key, write in filled),
                {None: "", True: "noise", False: "faster" if row["speedup"] > 1 else "slower"}[row["within_noise"]],
            ]
            for row in rows
        ]
        columns, cells = fitting(columns, cells, ("GPU", "kernels", "lost%"))
        chart = speedup_chart(one, layout)
        blocks.append(Block(label(one), columns=tuple(columns), cells=cells, chart=chart))
    return blocks


def fitting(columns: list[Shown], cells: list[list[str]], spare: Sequence[str]) -> tuple[list[Shown], list[list[str]]]:
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


def chart_block(found: Json, layout: Layout) -> Block:
    """Step times over sizes; without rows where there is no line to draw."""
    return Block("", chart=Chart("", tuple(_chart(found, layout)), lambda: _chart_svg(found, layout)))


def _chart(found: Json, layout: Layout) -> list[str]:
    axis, lines = chart_lines(found)
    if not any(len(line.points) > 1 for line in lines):
        return []
    drawn = [Line(layout.text(line.name), line.points, line.spread) for line in lines]
    return line_chart(
        drawn, WIDTH - 2, CHART_ROWS, x_title=layout.text(axis),
        y_title="step time", x_label=lambda value: f"{value:g}",
        y_label=lambda value: format_us(value, ascii=layout.ascii), ascii=layout.ascii,
    )  # fmt: skip


def _chart_svg(found: Json, layout: Layout) -> str:
    axis, lines = chart_lines(found)
    drawn = [Line(layout.text(line.name), line.points, line.spread) for line in lines]
    return lines_svg(
        drawn, f"step time by {axis}", x_title=layout.text(axis), y_title="step time", x_label=lambda v: f"{v:g}",
        y_label=lambda value: format_us(value, ascii=layout.ascii),
    )  # fmt: skip


def _speedup(row: Json) -> str:
    error = row["speedup_error"]
    return f"{row['speedup']:.2f}" + (f" ±{2 * error:.2f}" if error is not None else "")
