"""The report as plain text of at most 80 columns, worth pasting into an issue tracker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.quantities import format_bytes, format_count, format_percent
from tracetui.app.reports import counter_blocks, text_sections
from tracetui.app.reports.text_joins import join_lines
from tracetui.app.reports.text_table import WIDTH, Column, Page
from tracetui.app.text.formats import cell_width, fit
from tracetui.app.text.tools import WORDS

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json


SECTIONS = frozenset(text_sections.SECTIONS)


def report_text(found: Json, *, limit: int | None = None, ascii: bool = False, charts: bool = True) -> str:
    """The whole report of a run.

    Args:
        found: what `analysis.report.report` returned, with its lists whole.
        limit: rows per list; null for all.
        ascii: write nothing outside ASCII.
        charts: pictures of text beside the tables.
    """
    page = Page(limit, ascii, charts)
    run = found["run"]
    lines = title(f"tracetui report: {Path(run['path']).name or run['path']}", page)
    traces = run["traces"]
    if run["other_runs"]:
        lines += [
            *page.paragraph(f"One of {len(run['other_runs']) + 1} runs in this folder; the rest is listed below."),
            "",
        ]
    if run["captures"]:
        from tracetui.app.reports.text_captures import capture_lines

        lines += capture_lines(run["captures"], page)
        traces = [trace for trace in traces if SECTIONS & trace.keys()]
    elif not any(SECTIONS & trace.keys() for trace in traces) and "ranks" not in run:
        lines += [*page.paragraph("No captures to compare: give a folder with several files of one kind."), ""]
    if run.get("ranks"):
        lines += [*rank_lines(run["ranks"], page), ""]
        traces = [_slowest(run)]
        ranks = ", ".join(str(rank) for rank in _other_ranks(run, traces[0]))
        lines += [*page.paragraph(f"Below: rank {traces[0]['source']['rank']}; --rank N shows another ({ranks})."), ""]
    shown, others = _by_tool(traces, run["main"])
    for trace in shown:
        for block in (_head(trace, page), *text_sections.blocks(trace, page)):
            lines += [*block, ""] if block else []
    if run.get("counters_compared"):
        for counters in counter_blocks.compared_blocks(run["counters_compared"], page, short=True):
            lines += [*counter_blocks.text_block(counters, page), ""]
    if others:
        lines += [*_other_tools(others, page), ""]
    if run.get("joins"):
        lines += [*join_lines(run["joins"], page), ""]
    return finish([*lines, *_others(run, page)])


def _by_tool(traces: list[Json], main: int | None) -> tuple[list[Json], list[Json]]:
    """What is printed: the recordings of the main tool whole, those without a time line for what only they know.

    The others, of the same program as seen by another tool, are only named.
    """
    kinds = [trace["source"]["kind"] for trace in traces]
    if main is None or len(set(kinds)) < 2:
        return traces, []
    main_kind = traces[min(main, len(traces) - 1)]["source"]["kind"]
    shown: list[Json] = []
    others: list[Json] = []
    for trace, kind in zip(traces, kinds, strict=True):
        if kind == main_kind:
            shown.append(trace)
        elif own := WORDS[kind].own_sections:
            kept = (*own, *(["findings"] if trace.get("findings") else []))
            shown.append({key: value for key, value in trace.items() if key not in SECTIONS or key in kept})
        else:
            others.append(trace)
    return shown, others


def _other_tools(traces: list[Json], page: Page) -> list[str]:
    lines = ["Other recordings in this run"]
    for trace in traces:
        source = trace["source"]
        name = f"{Path(source['path']).name} ({WORDS[source['kind']].label})"
        lines += page.paragraph(f"{name}: --source {source['kind']} prints it.", indent="  ")
    return lines


def title(text: str, page: Page) -> list[str]:
    """The first line, underlined."""
    line = fit(page.text(text), WIDTH, ascii=page.ascii)
    return [line, "-" * cell_width(line), ""]


def finish(lines: list[str]) -> str:
    """One text that ends in one line break."""
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"


def rank_lines(ranks: list[Json], page: Page) -> list[str]:
    """The table of ranks and the straggler by name."""
    columns = [
        Column("rank"), Column("step"), Column("compute"), Column("communication"), Column("idle"),
        Column("vs. median"), Column("", right=False),
    ]  # fmt: skip
    cells = [
        [
            str(row["rank"]),
            *(page.time(row[key]) for key in ("step_us", "compute_us", "communication_us", "idle_us")),
            format_percent(row["behind_percent"], signed=True),
            "<- straggler" if row["straggler"] else "",
        ]
        for row in ranks
    ]
    lines = ["Ranks (average per step; own compute against the median rank)", *page.table(columns, cells)]
    for row in ranks:
        if row["straggler"]:
            text = (
                f"Rank {row['rank']} is the straggler: its own compute takes {format_percent(row['behind_percent'])} "
                "longer than the median rank's; the others wait for it inside their communication kernels."
            )
            lines += ["", *page.paragraph(text)]
    return lines


def _head(trace: Json, page: Page) -> list[str]:
    source = trace["source"]
    tool = " ".join(part for part in (source["tool"], source["tool_version"]) if part)
    events = f"{format_count(source['events_parsed'])} of {format_count(source['events_total'])} events read"
    lines = page.field("File", f"{Path(source['path']).name} ({format_bytes(source['bytes'])}, {tool}, {events})")
    if source["rank"] is not None:
        lines += page.field("Rank", f"{source['rank']} of {source['world_size'] or 'an unknown number'}")
    lines += page.field("GPU", _devices(trace["device"]))
    lines += page.field("Base", trace["base"])
    if trace["totals_base"] != trace["base"]:
        lines += page.field("Totals", f"of {trace['totals_base']} them: work that no step launched")
    if source["partial"]:
        lines += page.field("Partial", "loading was stopped before the end of the file")
    return lines


def _devices(devices: list[Json]) -> str:
    kinds: dict[str, int] = {}
    for device in devices:
        facts = [
            f"compute capability {device['compute_capability']}" if device["compute_capability"] else "",
            f"{device['sm_count']} SMs" if device["sm_count"] else "",
            format_bytes(device["memory_bytes"]) if device["memory_bytes"] else "",
        ]
        detail = ", ".join(fact for fact in facts if fact)
        name = device["name"] or "not named in the file"
        kind = f"{name} ({detail})" if detail else name
        kinds[kind] = kinds.get(kind, 0) + 1
    described = (f"{count} × {kind}" if count > 1 else kind for kind, count in kinds.items())
    return "; ".join(described) or "none described in the file"


def _slowest(run: Json) -> Json:
    """The straggler's trace, else the first."""
    straggler = next((row["rank"] for row in run["ranks"] if row["straggler"]), None)
    chosen: Json = next((t for t in run["traces"] if t["source"]["rank"] == straggler), run["traces"][0])
    return chosen


def _other_ranks(run: Json, shown: Json) -> list[int]:
    return [row["rank"] for row in run["ranks"] if row["rank"] != shown["source"]["rank"]]


def _others(run: Json, page: Page) -> list[str]:
    lines: list[str] = []
    for warning in run["warnings"]:
        lines += page.paragraph(f"Not read: {warning}")
    if run["other_runs"]:
        lines.append(f"{len(run['other_runs'])} other runs in this folder; open one by its path:")
        if not run["captures"]:
            lines += page.paragraph("(--section captures reads them all and compares them)", indent="  ")
    for other in run["other_runs"]:
        paths = [Path(path) for path in other["paths"]]
        path = paths[0] if len(paths) == 1 else paths[0].parent
        count = f" ({len(paths)} files)" if len(paths) > 1 else ""
        lines += page.paragraph(f"{path}{count}", indent="  ")
    return lines
