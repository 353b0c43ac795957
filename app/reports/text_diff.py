"""The diff of two runs as plain text of at most 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.quantities import format_percent
from tracetui.app.reports.text_findings import finding_lines
from tracetui.app.reports.text_report import finish, title
from tracetui.app.reports.text_table import Column, Page
from tracetui.app.tables.module_tree import merged_changes
from tracetui.app.text.names import told_apart

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json

SIGNS = {"added": "+", "removed": "-", "changed": "~", "same": "="}
"""A change is told by word and sign, never by colour alone."""


def diff_text(found: Json, *, limit: int | None = None, ascii: bool = False) -> str:
    """The whole diff.

    Args:
        found: what `analysis.report.diff_report` returned, with its lists whole.
        limit: rows per list; null for all.
        ascii: write nothing outside ASCII.
    """
    page = Page(limit, ascii)
    blocks = [
        title("tracetui diff: what changed from A to B, per step", page)[:-1],
        [*_side("A", found["a"], page), *_side("B", found["b"], page)],
        comparable_lines(found, page),
        page.paragraph(verdict(found, page)),
        finding_lines(found, page),
        _split(found, page),
        _waterfall(found["waterfall"], page),
        changes("kernels", found["kernels"], page),
        changes("operators", found["operators"], page),
        changes("modules", merged_changes(found["modules"]), page),
        [] if found["modules"] else changes("ranges", found["ranges"], page),
    ]
    lines: list[str] = []
    for block in blocks:
        lines += [*block, ""] if block else []
    return finish(lines)


def verdict(found: Json, page: Page) -> str:
    """One sentence: how the step changed, and whether that is more than the steps vary by themselves."""
    step = found["step"]
    if step["a_us"] is None or step["b_us"] is None:
        return "The step times can't be compared: one of them is unknown."
    if not step["delta_us"]:
        return f"The step takes as long in B as in A: {page.time(step['a_us'])}."
    percent = format_percent(abs(step["delta_percent"])) if step["delta_percent"] is not None else ""
    by = ", ".join(text for text in (page.time(abs(step["delta_us"])), percent) if text)
    change = f"is {by} {'slower' if step['delta_us'] > 0 else 'faster'} in B"
    times = f"{page.time(step['a_us'])} in A, {page.time(step['b_us'])} in B"
    noise = step["median_noise_us"]
    median = step["median_delta_us"]
    if noise is None:
        sure = "With one step in either run, it is unknown how much steps vary by themselves: this may be chance."
    else:
        moved = f"The medians differ by {signed_time(median, page)} ({format_percent(step['median_delta_percent'])})"
        by_chance = f"±{page.time(noise)} by which steps vary by themselves"
        if step["beyond_noise"]:
            sure = f"{moved}, more than the {by_chance}."
        else:
            sure = f"{moved}, within the {by_chance}: no proof of a change."
    return f"The step {change} ({times}). {sure}"


def comparable_words(comparable: Json) -> str:
    """May the two be compared: one sentence."""
    rows = comparable["differences"]
    if comparable["verdict"] == "not_comparable":
        many = sum(row["matters"] for row in rows)
        what = "something that times depend" if many == 1 else f"{many} things that times depend"
        return f"NOT COMPARABLE: they differ in {what} on, whatever the code (marked !)."
    if comparable["verdict"] == "explained":
        chosen = [row["field"] for row in rows if row["intended"]]
        if len(chosen) == 1:
            return f"Explained: they differ in {chosen[0]}, which may be what the comparison is about."
        return f"Explained: they differ in {len(chosen)} things at once (marked *), whose effects can't be told apart."
    if rows:
        return "Comparable: they differ in nothing that times are known to depend on."
    return "Comparable: no difference is known in device, settings or versions."


def comparable_lines(found: Json, page: Page) -> list[str]:
    """May the two be compared, and every difference."""
    comparable = found["comparable"]
    lines = page.paragraph(comparable_words(comparable))
    for row in comparable["differences"]:
        mark = "! " if row["matters"] else "* " if row["intended"] else "  "
        lines += page.paragraph(f"{row['field']}: A {plain_value(row['a'])}, B {plain_value(row['b'])}",
                                indent="  " + mark)  # fmt: skip
    return lines


def changes(name: str, rows: list[Json], page: Page) -> list[str]:
    """What was added, removed or changed, the greatest difference first."""
    changed = [row for row in rows if row["status"] != "same"]
    if not rows:
        return []
    shown = changed[: page.limit]
    names = told_apart(rows)
    counts = ", ".join(
        f"{sum(row['status'] == status for row in rows)} {status}" for status in SIGNS if status != "same"
    )
    heading = page.heading(f"{name.capitalize()}: {counts}", "", len(shown), len(changed))
    columns = [
        Column("difference"), Column("A"), Column("B"), Column("calls"), Column("", right=False),
        Column(name[:-1], right=False, share=1),
    ]  # fmt: skip
    cells = [
        [
            signed_time(row["delta_us"], page),
            page.time(row["a_us"]),
            page.time(row["b_us"]),
            calls(row),
            change(row),
            names[row["name"]],
        ]
        for row in shown
    ]
    lines = [heading, *page.table(columns, cells)] if cells else [heading]
    if any(row.get("paired_by") == "types" for row in shown):
        lines += page.paragraph("types: the same kernel over other element types in B", indent="  ")
    return lines


def change(row: Json) -> str:
    """What became of a row, by sign and word."""
    word = "types" if row.get("paired_by") == "types" else row["status"]
    return f"{SIGNS[row['status']]} {word}"


def calls(row: Json) -> str:
    """Calls per step: ``48``, or ``48→96`` where they changed."""
    a, b = (f"{row[key]:,.2f}".removesuffix(".00") for key in ("a_calls", "b_calls"))
    return a if a == b else f"{a}→{b}"


def signed_time(us: float | None, page: Page) -> str:
    """A difference with its sign."""
    return page.time(us) if us is None or us <= 0 else f"+{page.time(us)}"


SPLIT_WORDS = {
    "gpu_time": "GPU work, summed",
    "overlap": "less what overlaps, or runs outside of its step",
    "host_wait": "GPU waits for the host",
    "kernel_wait": "GPU starts the next kernel",
    "other": "GPU waits for something else",
}


def _split(found: Json, page: Page) -> list[str]:
    """The step's difference as GPU work and waiting, which add up to it."""
    rows = found["split"]
    if not rows or not found["step"]["delta_us"]:
        return []
    columns = [Column("part of the step", right=False), Column("A"), Column("B"), Column("difference")]
    cells = [
        [SPLIT_WORDS[row["part"]], page.time(row["a_us"]), page.time(row["b_us"]), signed_time(row["delta_us"], page)]
        for row in rows
        if row["a_us"] or row["b_us"]
    ]
    step = found["step"]
    cells.append(["step", page.time(step["a_us"]), page.time(step["b_us"]), signed_time(step["delta_us"], page)])
    return ["Where the difference in step time comes from", *page.table(columns, cells)]


def _waterfall(rows: list[Json], page: Page) -> list[str]:
    columns = [
        Column("category", right=False), Column("more or fewer calls"), Column("slower or faster calls"),
        Column("together"),
    ]  # fmt: skip
    cells = [
        [
            row["category"],
            signed_time(row["count_effect_us"], page),
            signed_time(row["mean_effect_us"], page),
            signed_time(row["count_effect_us"] + row["mean_effect_us"], page),
        ]
        for row in rows
        if row["count_effect_us"] or row["mean_effect_us"]
    ]
    if len(cells) > 1:
        sums = [sum(row[key] for row in rows) for key in ("count_effect_us", "mean_effect_us")]
        cells.append(["all GPU work", *(signed_time(value, page) for value in (*sums, sum(sums)))])
    return ["Where the difference in GPU time comes from", *page.table(columns, cells)] if cells else []


def _side(letter: str, side: Json, page: Page) -> list[str]:
    rank = "" if side["rank"] is None else f", rank {side['rank']}"
    return page.field(letter, f"{side['name']}{rank}: {side['base']}", width=3)


def plain_value(value: object) -> str:
    """A setting as a person reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "not recorded" if value is None else str(value)
