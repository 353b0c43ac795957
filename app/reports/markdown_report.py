"""The report as GitHub-flavoured Markdown tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracetui.analysis.base.quantities import UNKNOWN, format_bytes, format_count, format_percent
from tracetui.app.reports import counter_blocks
from tracetui.app.reports.charts import (
    fenced,
    lanes_chart,
    launches_chart,
    memory_chart,
    modules_chart,
    ranges_chart,
    steps_chart,
)
from tracetui.app.reports.roofline_text import CHART_ROWS, chart_lines
from tracetui.app.reports.roofline_text import block as roofline_block
from tracetui.app.reports.text_diff import (
    SPLIT_WORDS,
    calls,
    change,
    comparable_words,
    plain_value,
    signed_time,
    verdict,
)
from tracetui.app.reports.text_findings import finding_markdown
from tracetui.app.reports.text_joins import sentences as sentences_of_join
from tracetui.app.reports.text_memory import sentences, tables
from tracetui.app.reports.text_ranges import shown_ranges, tree_is_shown
from tracetui.app.reports.text_sections import launched_by, launches, most_per_step, unknowns
from tracetui.app.reports.text_table import WIDTH, Page
from tracetui.app.tables.module_tree import merged_changes, merged_tree
from tracetui.app.tables.range_tree import largest, merged_ranges, spelled
from tracetui.app.text.formats import printable, short_function
from tracetui.app.text.names import told_apart
from tracetui.app.text.words import CATEGORY_LABELS, group_words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.charts import Chart

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~"})
Titles = tuple[str, ...]


def report_markdown(found: Json, *, limit: int | None = None, ascii: bool = False, charts: bool = True) -> str:
    """The whole report of a run; `limit` rows per list, null for all; `ascii` is about the charts."""
    page = Page(limit, ascii, charts)
    run = found["run"]
    lines = [f"# tracetui report: {plain(Path(run['path']).name or run['path'])}", ""]
    if run["captures"]:
        lines += _captures(run["captures"], page)
    if run.get("ranks"):
        lines += _ranks(run["ranks"], page)
    for trace in run["traces"]:
        lines += _trace(trace, page, alone=len(run["traces"]) == 1)
    lines += [f"- {plain(' '.join(sentences_of_join(found)))}" for found in run.get("joins", [])]
    if run.get("counters_compared"):
        for block in counter_blocks.compared_blocks(run["counters_compared"], page, short=False):
            lines += counter_blocks.markdown_block(block, plain, code)
    lines += [f"Not read: {plain(warning)}" for warning in run["warnings"]]
    return "\n".join(lines).rstrip("\n") + "\n"


def diff_markdown(found: Json, *, limit: int | None = None) -> str:
    """The whole diff; `limit` rows per list, null for all."""
    page = Page(limit)
    lines = ["# tracetui diff: what changed from A to B, per step", ""]
    for letter in ("a", "b"):
        side = found[letter]
        lines += [f"- {letter.upper()}: {code(side['name'])} ({plain(side['base'])})"]
    lines += ["", plain(comparable_words(found["comparable"])), ""]
    for row in found["comparable"]["differences"]:
        matters = " **(matters)**" if row["matters"] else " (chosen)" if row["intended"] else ""
        values = f"{plain(plain_value(row['a']))} → {plain(plain_value(row['b']))}"
        lines += [f"- differs: {plain(row['field'])}: {values}{matters}"]
    lines += [""] if found["comparable"]["differences"] else []
    lines += [plain(verdict(found, page)), ""]
    lines += finding_markdown(found, page, plain, code)
    lines += _split(found, page) + _waterfall(found["waterfall"], page)
    for name in ("kernels", "operators", "modules" if found["modules"] else "ranges"):
        everything = merged_changes(found[name]) if name == "modules" else found[name]
        changed = [row for row in everything if row["status"] != "same"]
        names = told_apart(everything)
        rows = [
            [
                signed_time(row["delta_us"], page),
                page.time(row["a_us"]),
                page.time(row["b_us"]),
                calls(row),
                change(row),
                code(names[row["name"]]),
            ]
            for row in changed[: page.limit]
        ]
        titles = ("difference", "A", "B", "calls", "", name[:-1])
        lines += _section(name.capitalize(), titles, rows, len(changed), text=2)
    return "\n".join(lines).rstrip("\n") + "\n"


def _split(found: Json, page: Page) -> list[str]:
    """The step's difference as GPU work and waiting."""
    if not found["split"] or found["step"]["delta_us"] is None:
        return []
    step = {"part": "step", **{key: found["step"][key] for key in ("a_us", "b_us", "delta_us")}}
    cells = [
        [SPLIT_WORDS.get(row["part"], "**step**"), page.time(row["a_us"]), page.time(row["b_us"]),
         signed_time(row["delta_us"], page)]
        for row in (*found["split"], step)
    ]  # fmt: skip
    return ["### Step time", "", *_table(("part of the step", "A", "B", "difference"), cells, "lrrr"), ""]


def _waterfall(rows: list[Json], page: Page) -> list[str]:
    """The difference of GPU time by category and cause."""
    keys = ("count_effect_us", "mean_effect_us")
    cells = [
        [plain(row["category"]), *(signed_time(row[key], page) for key in keys),
         signed_time(sum(row[key] for key in keys), page)]
        for row in rows
        if any(row[key] for key in keys)
    ]  # fmt: skip
    titles = ("category", "by count", "by duration", "together")
    return ["### GPU time", "", *_table(titles, cells, "lrrr"), ""] if cells else []


def plain(text: str) -> str:
    """Text that Markdown takes literally, on one line."""
    return printable(text).translate(_SPECIAL)


def code(text: str) -> str:
    """A name as a code span inside a table cell: backticks and bars can't end it."""
    text = printable(text).replace("|", "\\|")
    longest, run = 0, 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    if not longest:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"


def _trace(trace: Json, page: Page, *, alone: bool) -> list[str]:
    source = trace["source"]
    lines = [] if alone else [f"## {plain(Path(source['path']).name)}", ""]
    devices = ", ".join(plain(device["name"] or "unnamed") for device in trace["device"]) or "none described"
    lines += [
        f"- file: {code(Path(source['path']).name)}, {format_bytes(source['bytes'])}, {plain(source['tool'])}",
        f"- events: {format_count(source['events_parsed'])} of {format_count(source['events_total'])} read",
        f"- GPU: {devices}",
        f"- base: {plain(trace['base'])}",
        *([f"- totals: of {plain(trace['totals_base'])} them"] if trace["totals_base"] != trace["base"] else []),
        "",
    ]
    if trace.get("overview"):
        lines += [plain(trace["overview"]["waits_for"]["sentence"]), ""]
    lines += finding_markdown(trace, page, plain, code)
    if trace.get("overview"):
        lines += _overview(trace["overview"], page)
    if trace.get("kernels"):
        groups = "kernels_by" in trace
        lines += _kernel_groups(trace, page) if groups else _kernels(trace["kernels"], page)
    for block in counter_blocks.blocks(trace, page):
        lines += counter_blocks.markdown_block(block, plain, code)
    if trace.get("roofline"):
        lines += _roofline(trace, page)
    if trace.get("host_functions"):
        lines += _host(trace["host_functions"], page)
    if trace.get("modules"):
        lines += _modules(trace["modules"], page)
    if trace.get("operators"):
        lines += _operators(trace["operators"], page)
    for name, heading in (("memops", "Copies and fills"), ("api", "CUDA API calls")):
        if trace.get(name):
            lines += _calls(heading, trace[name], page)
    if trace.get("communication"):
        lines += _communication(trace["communication"], page)
    if trace.get("ranges"):
        lines += _ranges(trace["ranges"], page)
    if tree_is_shown(trace):
        lines += _range_tree(trace["range_tree"], page)
    if trace.get("launches"):
        lines += [" ".join(launches(trace, page)), ""]
    if trace.get("memory"):
        lines += _memory(trace["memory"], page)
    for kind in ("skipped", "repaired", "missing"):
        lines += [f"- {kind}: {format_count(note['count'])} × {plain(note['reason'])}" for note in source[kind]]
    absent = [line.strip() for line in unknowns(trace, page)]
    if absent:
        lines += ["", f"{absent[0]}:", "", *absent[1:]]
    return [*lines, ""]


def _roofline(trace: Json, page: Page) -> list[str]:
    shown, peaks = trace["roofline"][: page.limit], trace["roofline_peaks"]
    chart = chart_lines(shown, peaks, WIDTH, CHART_ROWS, ascii=page.ascii) if page.charts else []
    lines = counter_blocks.markdown_block(roofline_block(trace, page), plain, code)
    return [*lines[:2], *(["```text", *chart, "```", ""] if chart else []), *lines[2:]]


def _memory(found: Json, page: Page) -> list[str]:
    lines = [plain(text) for text in sentences(found, page)]
    lines += [""] if lines else []
    lines += _chart(memory_chart, found, page)
    for heading, base, columns, cells, whole in tables(found, page.limit):
        texts = [n for n, column in enumerate(columns) if not column.right]
        shown = [[code(cell) if n in texts else plain(cell) for n, cell in enumerate(row)] for row in cells]
        titles = tuple(column.title for column in columns)
        lines += _section(f"{heading} ({base})", titles, shown, whole, text=len(texts))
    return lines


def _overview(found: Json, page: Page) -> list[str]:
    rows = [
        [CATEGORY_LABELS[name], page.time(cost["us"]), format_percent(cost["percent"])]
        for name, cost in found["categories"].items()
    ]
    rows.append(["**Step**", page.time(found["average_step_us"]), format_percent(100.0)])
    lines = [*_table(("average step", "time", "share"), rows, "lrr"), ""]
    keys = ("busy_percent", "utilization_percent", "sm_efficiency_percent", "occupancy_percent", "tensor_core_percent")
    gpus = [[str(row["device"]), *(format_percent(row[key]) for key in keys)] for row in found["gpu"]]
    if gpus:
        titles = ("GPU", "busy", "utilization", "SM efficiency", "occupancy", "tensor cores")
        lines += [*_table(titles, gpus, "r" * len(titles)), ""]
    return lines + _chart(steps_chart, found, page) + _chart(lanes_chart, found, page)


def _chart(draw: Callable[..., Chart], found: Any, page: Page) -> list[str]:
    """A picture of text, where they are wanted and there is something to draw."""
    return fenced(draw(found, WIDTH, ascii=page.ascii)) if page.charts else []


def _kernel_groups(trace: Json, page: Page) -> list[str]:
    rows, by = trace["kernel_groups"], group_words(trace["kernels_by"])
    cells = [
        [
            page.time(row["total_us"]),
            format_percent(row["percent"]),
            format_count(row["calls"]),
            page.time(row["mean_us"]),
            format_count(row["kernels"]),
            plain(row["group"]),
            code(row["short_name"] or row["name"]),
        ]
        for row in rows[: page.limit]
    ]
    titles = ("time", "share of kernel time", "calls", "mean", "kernels", by, "top kernel")
    return _section(f"Kernels by {by}", titles, cells, len(rows), text=2)


def _kernels(rows: list[Json], page: Page) -> list[str]:
    launcher = launched_by(rows[: page.limit])
    names = told_apart(rows)
    cells = [
        [
            page.time(row["total_us"]),
            format_percent(row["percent"]),
            format_count(row["calls"]),
            page.time(row["mean_us"]),
            code(names[row["name"]]),
            plain(row[launcher] or UNKNOWN),
        ]
        for row in rows[: page.limit]
    ]
    titles = ("time", "share of kernel time", "calls", "mean", "kernel", launcher)
    return _section("Kernels", titles, cells, len(rows), text=2) + _chart(launches_chart, rows, page)


def _host(rows: list[Json], page: Page) -> list[str]:
    cells = [
        [
            page.time(row["self_per_step_us"]),
            format_percent(row["percent"]),
            page.time(row["total_us"]),
            format_count(row["calls"]),
            plain(row["kind"]),
            code(short_function(row["name"])),
        ]
        for row in most_per_step(rows)[: page.limit]
    ]
    titles = ("self per step", "share of step", "total", "calls", "kind", "function")
    return _section("Host", titles, cells, len(rows), text=2)


def _modules(rows: list[Json], page: Page) -> list[str]:
    if not any(row["class_name"] for row in rows):
        return []
    tree = merged_tree(rows, page.limit)
    cells = [
        [
            page.time(node.device_total_us),
            page.time(node.device_self_us),
            page.time(node.backward_us),
            page.time(node.host_total_us),
            format_count(node.calls) if node.calls else "-",
            "· " * node.depth + plain(node.label),
        ]
        for node in tree.shown
    ]
    titles = ("GPU total", "GPU self", "GPU backward", "host total", "calls", "module")
    return _section("Modules", titles, cells, tree.whole, text=1) + _chart(modules_chart, rows, page)


def _operators(rows: list[Json], page: Page) -> list[str]:
    times = ("device_self_us", "device_total_us", "host_self_us", "host_total_us")
    cells = [
        [*(page.time(row[key]) for key in times), format_count(row["calls"]), code(row["name"])]
        for row in rows[: page.limit]
    ]
    titles = ("GPU self", "GPU total", "host self", "host total", "calls", "operator")
    return _section("Operators", titles, cells, len(rows), text=1)


def _calls(heading: str, rows: list[Json], page: Page) -> list[str]:
    cells = [
        [page.time(row["total_us"]), format_count(row["calls"]), page.time(row["mean_us"]), code(row["name"])]
        for row in rows[: page.limit]
    ]
    return _section(heading, ("time", "calls", "mean", "name"), cells, len(rows), text=1)


def _communication(found: Json, page: Page) -> list[str]:
    if not found["kernels"]:
        return []
    text = (
        f"{page.time(found['communication_us'])} per step, {page.time(found['overlap_us'])} of it while compute "
        f"kernels run ({format_percent(found['overlap_percent'])})."
    )
    return [*_calls("Communication", found["kernels"], page), text, ""]


def _ranges(rows: list[Json], page: Page) -> list[str]:
    cells = [
        [
            page.time(row["host_total_us"]),
            page.time(row["device_us"]),
            format_count(row["gpu_ops"]),
            format_count(row["instances"]),
            code(spelled(row)),
        ]
        for row in shown_ranges(rows, page.limit)
    ]
    return _section("Ranges", ("host total", "GPU time", "GPU ops", "instances", "range"), cells, len(rows), text=1)


def _range_tree(rows: list[Json], page: Page) -> list[str]:
    nodes = merged_ranges(rows)
    cells = [
        [
            page.time(node.device_total_us),
            page.time(node.device_self_us),
            page.time(node.host_total_us) if node.calls else UNKNOWN,
            format_count(node.calls) if node.calls else UNKNOWN,
            "· " * node.depth + plain(node.label),
        ]
        for node in largest(nodes, page.limit)
    ]
    return _section(
        "Ranges as a tree", ("GPU total", "GPU self", "host total", "calls", "range"), cells, len(nodes), text=1
    ) + _chart(ranges_chart, rows, page)


def _ranks(rows: list[Json], page: Page) -> list[str]:
    cells = [
        [
            str(row["rank"]),
            *(page.time(row[key]) for key in ("step_us", "compute_us", "communication_us", "idle_us")),
            format_percent(row["behind_percent"], signed=True),
            "straggler" if row["straggler"] else "",
        ]
        for row in rows
    ]
    titles = ("rank", "step", "compute", "communication", "idle", "compute vs median", "")
    return _section("Ranks", titles, cells, len(rows), text=1)


def _captures(found: list[Json], page: Page) -> list[str]:
    from tracetui.app.reports.captures_tables import tables

    lines: list[str] = []
    for table in tables(found, page):
        titles = tuple(plain(column.title) for column in table.columns)
        align = "".join("r" if column.right else "l" for column in table.columns)
        rows = [[plain(cell) for cell in row] for row in table.cells]
        shown = f" ({table.shown} of {table.whole})" if table.shown < table.whole else ""
        lines += [f"## {plain(table.title)}{shown}", "", plain(table.base), "", *_table(titles, rows, align), ""]
    for row in found:
        lines += [f"Not read: {plain(row['problem'])}", ""] if row["problem"] is not None else []
    return lines


def _section(heading: str, titles: Titles, rows: Sequence[Sequence[str]], whole: int, *, text: int) -> list[str]:
    """A list under its heading; its last `text` columns hold text, those before them numbers."""
    part = f" ({len(rows)} of {whole})" if len(rows) < whole else ""
    align = "r" * (len(titles) - text) + "l" * text
    return [f"### {heading}{part}", "", *_table(titles, rows, align), ""] if rows else []


def _table(titles: Titles, rows: Sequence[Sequence[str]], align: str) -> list[str]:
    """A table; `align` has an ``l`` or ``r`` per column."""
    rule = [":--" if side == "l" else "--:" for side in align]
    return [_line(titles), _line(rule), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
