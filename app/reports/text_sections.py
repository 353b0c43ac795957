"""The blocks of the text report, one per section: lines for what was found, none where there is nothing to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracetui.analysis.base.quantities import UNKNOWN, format_bytes, format_count, format_number, format_percent
from tracetui.app.reports import counter_blocks
from tracetui.app.reports.charts import indented, lanes_chart, launches_chart, modules_chart, steps_chart
from tracetui.app.reports.counter_blocks import text_block
from tracetui.app.reports.roofline_text import CHART_ROWS, chart_lines
from tracetui.app.reports.roofline_text import block as roofline_block
from tracetui.app.reports.text_findings import finding_lines
from tracetui.app.reports.text_memory import memory_lines
from tracetui.app.reports.text_ranges import range_tree, ranges
from tracetui.app.reports.text_table import WIDTH, Column, Page
from tracetui.app.tables.module_tree import NOT_ATTRIBUTED, merged_tree
from tracetui.app.text.formats import fit, short_function
from tracetui.app.text.names import told_apart
from tracetui.app.text.tools import WORDS
from tracetui.app.text.words import CATEGORY_LABELS, group_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracetui.analysis.base.json_values import Json

BAR_WIDTH = 24
CHART_WIDTH = WIDTH - 2
EXAMPLE_WIDTH = 60


def blocks(trace: Json, page: Page) -> Iterator[list[str]]:
    """The trace's sections in the order of reading: the verdict first, what is missing last."""
    if trace.get("overview") is not None:
        yield page.paragraph(trace["overview"]["waits_for"]["sentence"])
    for name, section in SECTIONS.items():
        if trace.get(name) is not None:
            yield section(trace, page)
    yield notes(trace, page)
    yield unknowns(trace, page)


def overview(trace: Json, page: Page) -> list[str]:
    """The average step, GPU metrics and idle time."""
    found = trace["overview"]
    lines = _average_step(found, page)
    if page.charts and (chart := indented(lanes_chart(found, CHART_WIDTH, ascii=page.ascii))):
        lines += ["", *chart]
    if found["gpu"]:
        lines += ["", *_gpu(found, page)]
    return lines


def findings(trace: Json, page: Page) -> list[str]:
    """What is wrong and what to do about it; where nothing else was asked for, also what could not be judged."""
    return finding_lines(trace, page, whole=not any(name in trace for name in SECTIONS if name != "findings"))


def _average_step(found: Json, page: Page) -> list[str]:
    steps = found["steps"]
    what = f"Average of {steps} steps" if steps > 1 else "The one step" if steps else "The whole file"
    lines = [f"{what}: {page.time(found['average_step_us'])}"]
    cells = [
        [
            CATEGORY_LABELS[name],
            page.time(cost["us"]),
            format_percent(cost["percent"]),
            page.bar(cost["percent"], BAR_WIDTH),
        ]
        for name, cost in found["categories"].items()
    ]
    columns = [Column("", right=False), Column("time"), Column("share"), Column("", right=False)]
    lines += page.table(columns, cells)
    if page.charts and steps > 1:
        lines += ["", *indented(steps_chart(found, CHART_WIDTH, ascii=page.ascii))]
    elif 1 < steps <= 8:
        each = ", ".join(f"{row['index']}: {page.time(row['us'])}" for row in found["per_step"])
        lines += page.paragraph(f"Step {each}", indent="  ")
    return lines


def _gpu(found: Json, page: Page) -> list[str]:
    columns = [
        Column("GPU"), Column("busy"), Column("utilization"), Column("SM efficiency"), Column("occupancy"),
        Column("tensor cores"),
    ]  # fmt: skip
    keys = ("busy_percent", "utilization_percent", "sm_efficiency_percent", "occupancy_percent", "tensor_core_percent")
    cells = [[str(row["device"]), *(format_percent(row[key]) for key in keys)] for row in found["gpu"]]
    # pauses between steps included: these are no shares of the average step
    whole = "first to last step" if found["steps"] else "the file"
    lines = [f"GPU (share of {whole}; occupancy and tensor cores: of kernel time)", *page.table(columns, cells)]
    idle = found["idle"]
    if idle["host_wait_percent"] is not None:
        shares = (
            f"Idle GPU time: {format_percent(idle['host_wait_percent'])} waiting for the host to launch, "
            f"{format_percent(idle['kernel_wait_percent'])} between queued kernels, "
            f"{format_percent(idle['other_percent'])} other."
        )
        lines += page.paragraph(shares, indent="  ")
    if found["overlap_percent"] is not None:
        overlap = format_percent(found["overlap_percent"])
        lines += page.paragraph(f"Communication overlapped by compute: {overlap} of communication time.", indent="  ")
    return lines


def kernels(trace: Json, page: Page) -> list[str]:
    """The kernels that take most GPU time."""
    rows = trace["kernels"]
    if not rows:
        return []
    if "kernels_by" in trace:
        return _kernel_groups(trace, page)
    shown = rows[: page.limit]
    names = told_apart(rows)
    launcher = launched_by(shown)
    columns = [
        Column("time"), Column("share"), Column("calls"), Column("mean"), Column("occup."),
        Column("kernel", right=False, share=3), Column(launcher, right=False, share=2),
    ]  # fmt: skip
    cells = [
        [
            page.time(row["total_us"]),
            _tight(row["percent"]),
            format_count(row["calls"]),
            page.time(row["mean_us"]),
            _tight(row["occupancy_percent"]),
            names[row["name"]],
            row[launcher] or UNKNOWN,
        ]
        for row in shown
    ]
    title = page.heading("Kernels", "share of kernel time in scope", len(shown), len(rows))
    chart = indented(launches_chart(rows, CHART_WIDTH, ascii=page.ascii)) if page.charts else []
    return [title, *page.table(columns, cells), *(["", *chart] if chart else [])]


def _kernel_groups(trace: Json, page: Page) -> list[str]:
    """The kernels by what they have in common."""
    rows, by = trace["kernel_groups"], trace["kernels_by"]
    shown = rows[: page.limit]
    columns = [
        Column("time"), Column("share"), Column("calls"), Column("mean"), Column("kernels"),
        Column(group_words(by), right=False, share=3), Column("top kernel", right=False, share=2),
    ]  # fmt: skip
    cells = [
        [
            page.time(row["total_us"]),
            _tight(row["percent"]),
            format_count(row["calls"]),
            page.time(row["mean_us"]),
            format_count(row["kernels"]),
            row["group"],
            row["short_name"] or row["name"],
        ]
        for row in shown
    ]
    title = page.heading(f"Kernels by {group_words(by)}", "share of kernel time in scope", len(shown), len(rows))
    return [title, *page.table(columns, cells)]


def launched_by(kernels: list[Json]) -> str:
    """What tells most about who launched these kernels: modules, else operators, else ranges."""
    known = (key for key in ("module", "operator", "range") if any(row[key] for row in kernels))
    return next(known, "operator")


def _tight(percent: float | None) -> str:
    """A share without its space: the columns it saves are a kernel's name."""
    return format_percent(percent).replace(" ", "")


def operators(trace: Json, page: Page) -> list[str]:
    """The operators that take most GPU time, or host time where there is none."""
    rows = trace["operators"]
    if all(row["name"] == NOT_ATTRIBUTED for row in rows):
        return []
    shown = rows[: page.limit]
    columns = [
        Column("GPU self"), Column("GPU total"), Column("host self"), Column("host total"), Column("calls"),
        Column("operator", right=False, share=1),
    ]  # fmt: skip
    times = ("device_self_us", "device_total_us", "host_self_us", "host_total_us")
    cells = [[*(page.time(row[key]) for key in times), format_count(row["calls"]), row["name"]] for row in shown]
    lines = [page.heading("Operators", "", len(shown), len(rows)), *page.table(columns, cells)]
    lost = next((row["percent"] for row in rows if row["name"] == NOT_ATTRIBUTED), None)
    if lost:
        lines += page.paragraph(f"{format_percent(lost)} of GPU time is of no operator.", indent="  ")
    return lines


def modules(trace: Json, page: Page) -> list[str]:
    """The module tree with the instances of one class under one parent merged."""
    rows = [row for row in trace["modules"] if row["path"]]
    if not any(row["class_name"] for row in rows):
        return []
    tree = merged_tree(rows, page.limit)
    backward = tree.has_backward
    columns = [
        Column("GPU total"), Column("GPU self"), *([Column("backward")] if backward else []), Column("host total"),
        Column("calls"), Column("module", right=False, share=1),
    ]  # fmt: skip
    cells = [
        [
            page.time(node.device_total_us),
            page.time(node.device_self_us),
            *([page.time(node.backward_us)] if backward else []),
            page.time(node.host_total_us),
            format_count(node.calls) if node.calls else UNKNOWN,
            "  " * node.depth + node.label,
        ]
        for node in tree.shown
    ]
    lines = [
        page.heading("Modules", "instances of a class merged", len(tree.shown), tree.whole),
        *page.table(columns, cells),
    ]
    if tree.not_attributed_percent:
        lines += page.paragraph(
            f"{format_percent(tree.not_attributed_percent)} of GPU time is of no module.", indent="  "
        )
    if page.charts and (chart := indented(modules_chart(trace["modules"], CHART_WIDTH, ascii=page.ascii))):
        lines += ["", *chart]
    return lines


def host_functions(trace: Json, page: Page) -> list[str]:
    """The host's hot spots, where the host is what the run waits for or all there is."""
    rows = trace["host_functions"]
    waits_for = (trace.get("overview") or {}).get("waits_for", {}).get("what", "host")
    if not rows or waits_for == "gpu":
        return []
    shown = most_per_step(rows)[: page.limit]
    columns = [
        Column("self/step"), Column("share"), Column("total"), Column("calls"), Column("kind", right=False),
        Column("function", right=False, share=1, keep_end=True),
    ]  # fmt: skip
    cells = [
        [
            page.time(row["self_per_step_us"]),
            format_percent(row["percent"]),
            page.time(row["total_us"]),
            format_count(row["calls"]),
            row["kind"],
            short_function(row["name"]),
        ]
        for row in shown
    ]
    whole = "step time" if (trace.get("overview") or {}).get("steps", 1) else "the file"
    title = page.heading("Host hot spots", f"self time, share of {whole}", len(shown), len(rows))
    return [title, *page.table(columns, cells)]


def most_per_step(rows: list[Json]) -> list[Json]:
    """Host functions by their own time in steps; those that only wait come last."""
    return sorted(rows, key=lambda row: (row["waits"], -row["self_per_step_us"]))


def memops(trace: Json, page: Page) -> list[str]:
    """Copies and fills."""
    rows = trace["memops"]
    if not rows:
        return []
    columns = [
        Column("time"), Column("calls"), Column("bytes"), Column("GB/s"), Column("copy or fill", right=False, share=1),
    ]  # fmt: skip
    cells = [
        [
            page.time(row["total_us"]),
            format_count(row["calls"]),
            format_bytes(row["bytes"]),
            format_number(row["throughput_gbps"]),
            row["name"],
        ]
        for row in rows[: page.limit]
    ]
    return [page.heading("Copies and fills", "", len(cells), len(rows)), *page.table(columns, cells)]


def api(trace: Json, page: Page) -> list[str]:
    """CUDA API calls."""
    rows = trace["api"]
    if not rows:
        return []
    columns = [
        Column("time"), Column("calls"), Column("mean"), Column("max"), Column("API call", right=False, share=1),
    ]  # fmt: skip
    cells = [
        [
            page.time(row["total_us"]),
            format_count(row["calls"]),
            page.time(row["mean_us"]),
            page.time(row["max_us"]),
            row["name"],
        ]
        for row in rows[: page.limit]
    ]
    return [page.heading("CUDA API calls", "", len(cells), len(rows)), *page.table(columns, cells)]


def launches(trace: Json, page: Page) -> list[str]:
    """One sentence about how kernels reach the GPU."""
    found = trace["launches"]
    if not found["count"]:
        return []
    text = (
        f"Launches: {format_count(found['count'])}, median delay to the kernel's start "
        f"{page.time(found['median_delay_us'])}; {format_count(found['short_kernels'])} kernels shorter than their "
        f"launch call, {format_count(found['runtime_outliers'])} slow calls, "
        f"{format_count(found['delay_outliers'])} long delays."
    )
    return page.paragraph(text)


def memory(trace: Json, page: Page) -> list[str]:
    """The allocator's peaks and who held them."""
    return memory_lines(trace["memory"], page)


def counters(trace: Json, page: Page) -> list[str]:
    """What Nsight Compute measured, by kernel."""
    lines: list[str] = []
    for block in counter_blocks.blocks(trace, page):
        lines += [*([""] if lines else []), *counter_blocks.text_block(block, page)]
    return lines


def roofline(trace: Json, page: Page) -> list[str]:
    """How near each kernel comes to the GPU's roofs: the chart, then the table."""
    if not trace["roofline"]:
        return []
    shown, peaks = trace["roofline"][: page.limit], trace["roofline_peaks"]
    chart = chart_lines(shown, peaks, CHART_WIDTH, CHART_ROWS, ascii=page.ascii) if page.charts else []
    lines = text_block(roofline_block(trace, page), page)
    return [lines[0], *(f"  {line}".rstrip() for line in chart), *lines[1:]]


def communication(trace: Json, page: Page) -> list[str]:
    """Collectives: how long they run, how much of that compute hides, and which they are."""
    found = trace["communication"]
    if not found["kernels"]:
        return []
    text = (
        f"Communication: {page.time(found['communication_us'])} per step, {page.time(found['overlap_us'])} of it while "
        f"compute kernels run ({format_percent(found['overlap_percent'])})."
    )
    columns = [Column("time"), Column("calls"), Column("mean"), Column("collective", right=False, share=1)]
    cells = [
        [
            page.time(row["total_us"]),
            format_count(row["calls"]),
            page.time(row["mean_us"]),
            row["short_name"] or row["name"],
        ]
        for row in found["kernels"][: page.limit]
    ]
    return [*page.paragraph(text), *page.table(columns, cells)]


def notes(trace: Json, page: Page) -> list[str]:
    """What the reader skipped, repaired or missed."""
    lines: list[str] = []
    for kind in ("skipped", "repaired", "missing"):
        for note in trace["source"][kind]:
            example = fit(" ".join(note["example"].split()), EXAMPLE_WIDTH, ascii=page.ascii)
            example = f" (first: {example})" if example else ""
            text = f"{kind.capitalize()}: {format_count(note['count'])} × {note['reason']}{example}"
            lines += page.paragraph(text)
    return lines


def unknowns(trace: Json, page: Page) -> list[str]:
    """What can't be known from this recording, and how to record it."""
    absent: dict[str, bool] = {
        "steps": _is(trace, "overview", lambda found: not found["steps"]),
        "device": _is(trace, "kernels", lambda rows: not rows) and _is(trace, "memops", lambda rows: not rows),
        "modules": _is(trace, "modules", lambda rows: not any(row["class_name"] for row in rows)),
        "ranges": _is(trace, "ranges", lambda rows: not rows),
        "memory": _is(trace, "memory", _no_memory),
    }
    lines: list[str] = []
    for name, words in WORDS[trace["source"]["kind"]].absent.items():
        if absent[name]:
            lines += page.paragraph(f"- {words}", indent="  ")
    return ["Not in this recording", *lines] if lines else []


def _no_memory(found: Json) -> bool:
    return found["peak_allocated_bytes"] is None and found["segments"] is None


def _is(trace: Json, section: str, test: Callable[[Any], bool]) -> bool:
    return trace.get(section) is not None and test(trace[section])


SECTIONS: dict[str, Callable[[Json, Page], list[str]]] = {
    "findings": findings,
    "overview": overview,
    "kernels": kernels,
    "counters": counters,
    "roofline": roofline,
    "communication": communication,
    "host_functions": host_functions,
    "modules": modules,
    "operators": operators,
    "range_tree": range_tree,
    "ranges": ranges,
    "memops": memops,
    "api": api,
    "launches": launches,
    "memory": memory,
}
