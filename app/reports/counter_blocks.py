"""Hardware counters in the text and Markdown reports: tables as data, laid out by either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracetui.analysis.base.quantities import UNKNOWN, format_count
from tracetui.app.reports.counter_text import caution_text, change_text, gaps_text, value_text
from tracetui.app.reports.text_table import Column
from tracetui.app.text.formats import letter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.text_table import Page

FILES_PER_TABLE = 5
"""Columns of numbers that have room in 80 characters."""
RULES_SHOWN = 5
BY_KERNEL = (
    "duration_us", "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent",
    "occupancy_percent",
)  # fmt: skip
"""What is compared kernel by kernel in a text; the JSON has every metric."""


@dataclass(frozen=True, slots=True)
class Block:
    """A table with its heading and sentences after it."""

    heading: str
    base: str
    titles: tuple[str, ...]
    rows: list[list[str]]
    text: int = 1
    """How many of the last columns hold text."""
    whole: int = 0
    """Rows of the whole list."""
    after: tuple[str, ...] = ()


def blocks(trace: Json, page: Page) -> Iterator[Block]:
    """A recording's counters by kernel, what was not collected, and what ncu advises."""
    kernels = trace.get("counters_by_kernel") or []
    if not kernels:
        return
    gaps = trace.get("counters_missing")
    launches = sum(row["launches"] for row in kernels)
    yield Block(
        "Hardware counters",
        f"means of {format_count(launches)} launches; % of peak",
        ("time", "N", "SM", "mem", "DRAM", "L1hit", "L2hit", "occup.", "bound", "kernel"),
        [
            [
                page.time(row["duration_us"]),
                format_count(row["launches"]),
                *(_percent(row[key]) for key in (
                    "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent",
                    "occupancy_percent",
                )),
                row["bound"] or UNKNOWN,
                row["short_name"] or row["kernel"],
            ]
            for row in kernels[: page.limit]
        ],
        text=2,
        whole=len(kernels),
        after=tuple(gaps_text(gaps["what"], gaps["command"]).split("\n")) if gaps else (),
    )  # fmt: skip
    yield Block(
        "Occupancy",
        "what limits it, launch shape",
        ("max %", "regs", "smem", "waves", "tensor", "limited by", "kernel"),
        [
            [
                _percent(row["theoretical_occupancy_percent"]),
                value_text(row["registers"], ""),
                value_text(row["shared_memory"], "byte"),
                value_text(row["waves"], ""),
                {True: "yes", False: "no", None: UNKNOWN}[row["tensor_cores"]],
                row["occupancy_limiter"] or UNKNOWN,
                row["short_name"] or row["kernel"],
            ]
            for row in kernels[: page.limit]
        ],
        text=2,
        whole=len(kernels),
    )
    said = [(rule, row) for row in kernels for rule in row["rules"] if rule["gain_us"]]
    said.sort(key=lambda pair: -pair[0]["gain_us"])
    if said:
        shown = said[: page.limit and min(page.limit, RULES_SHOWN)]
        yield Block(
            "Advice of ncu",
            "its estimates, of profiled time",
            ("gain", "est.", "rule", "kernel"),
            [
                [page.time(rule["gain_us"]), _percent(rule["speedup_percent"]), rule["name"], row["short_name"]]
                for rule, row in shown
            ],
            text=2,
            whole=len(said),
        )


def compared_blocks(found: Json, page: Page, *, short: bool) -> Iterator[Block]:
    """Several reports side by side.

    Args:
        found: ``counters_compared`` of the report.
        page: how it is laid out.
        short: call files A, B, C, … and put few into one table.
    """
    files = found["files"]
    letters = (
        [letter_of(number).upper() for number in range(len(files))] if short else [file["label"] for file in files]
    )
    profiled = [(file["launches"], file["kernels"]) for file in files]
    rows = [
        [
            *([letters[n]] if short else []),
            format_count(file["launches"]),
            format_count(file["kernels"]),
            page.time(file["total_us"]),
            file["label"],
        ]
        for n, file in enumerate(files)
    ]
    yield Block(
        "Reports side by side",
        "what was profiled",
        (*(("",) if short else ()), "launches", "kernels", "time", "file"),
        rows,
        after=(
            caution_text(profiled, same=found["same_kernels"]),
            *(f"Not read: {problem}" for problem in found["problems"]),
        ),
    )
    per_table = FILES_PER_TABLE if short else len(files)
    scopes = [("all", "Mean over every profiled launch")]
    if not found["same_kernels"]:
        counts = ", ".join(f"{letters[n]}: {file['common_launches']}" for n, file in enumerate(files))
        scopes.append(("common", f"Mean over kernels that every file profiled ({counts} launches)"))
    for scope, heading in scopes:
        metrics = [row for row in found["metrics"] if row["of"] == scope]
        if not metrics:
            continue
        expected = [file["launches" if scope == "all" else "common_launches"] for file in files]
        for begin in range(0, len(files), per_table):
            part = range(begin, min(begin + per_table, len(files)))
            yield _values(heading, metrics, letters, part, expected)
        if len(files) > 2:
            for begin in range(1, len(files), per_table):
                part = range(begin, min(begin + per_table, len(files)))
                yield _changes(f"Change from {letters[0]}", metrics, letters, part)
    yield from _kernel_blocks(found, letters, page, per_table)


def _values(heading: str, metrics: list[Json], letters: Sequence[str], part: range, expected: Sequence[int]) -> Block:
    pair = len(letters) == 2
    titles = (*(letters[n] for n in part), *(("change",) if pair else ()), "metric")
    rows = [
        [
            *(_value(row, n) for n in part),
            *((_change(row, 1),) if pair else ()),
            row["label"] + _coverage(row, part, expected),
        ]
        for row in metrics
    ]
    return Block(heading, "", titles, rows)


def _changes(heading: str, metrics: list[Json], letters: Sequence[str], part: range) -> Block:
    rows = [[*(_change(row, n) for n in part), row["label"]] for row in metrics]
    return Block(heading, "pt: percentage points", (*(letters[n] for n in part), "metric"), rows)


def _kernel_blocks(found: Json, letters: Sequence[str], page: Page, per_table: int) -> Iterator[Block]:
    kernels = found["kernels"][: page.limit]
    for begin in range(0, len(letters), per_table):
        part = range(begin, min(begin + per_table, len(letters)))
        yield Block(
            "Profiled kernels",
            "launches",
            (*(letters[n] for n in part), "kernel"),
            [[*(format_count(row["launches"][n]) for n in part), row["short_name"] or row["name"]] for row in kernels],
            whole=found["kernel_count"],
        )
    names = {row["name"]: row["short_name"] or row["name"] for row in kernels}
    for metric in BY_KERNEL:
        metrics = [
            row
            for row in found["metrics"]
            if row["of"] == "kernel" and row["metric"] == metric and row["kernel"] in names
            and sum(1 for value in row["values"] if value is not None) > 1
        ]  # fmt: skip
        for begin in range(0, len(letters), per_table) if metrics else ():
            part = range(begin, min(begin + per_table, len(letters)))
            pair = len(letters) == 2
            yield Block(
                f"Kernel by kernel: {metrics[0]['label']}",
                "mean of its launches",
                (*(letters[n] for n in part), *(("change",) if pair else ()), "kernel"),
                [
                    [*(_value(row, n) for n in part), *((_change(row, 1),) if pair else ()), names[row["kernel"]]]
                    for row in metrics
                ],
            )


def text_block(block: Block, page: Page) -> list[str]:
    """A block in at most 80 columns."""
    if not block.rows:
        return []
    numbers = len(block.titles) - block.text
    columns = [
        Column(title, right=n < numbers, share=int(n == len(block.titles) - 1)) for n, title in enumerate(block.titles)
    ]
    lines = [page.heading(block.heading, block.base, len(block.rows), block.whole or len(block.rows))]
    if not block.whole:
        lines = [page.heading(block.heading, block.base, 0, 0)]
    lines += page.table(columns, block.rows)
    for sentence in block.after:
        lines += page.paragraph(sentence, indent="  ")
    return lines


def markdown_block(block: Block, plain: Callable[[str], str], code: Callable[[str], str]) -> list[str]:
    """A block as a Markdown table; `plain` and `code` make text and names safe."""
    if not block.rows:
        return []
    numbers = len(block.titles) - block.text
    part = f" ({len(block.rows)} of {block.whole})" if len(block.rows) < block.whole else ""
    base = f"; {plain(block.base)}" if block.base else ""
    lines = [f"### {plain(block.heading)}{part}{base}", ""]
    lines.append("| " + " | ".join(plain(title) for title in block.titles) + " |")
    lines.append("| " + " | ".join(["--:"] * numbers + [":--"] * block.text) + " |")
    for row in block.rows:
        cells = [plain(cell) for cell in row[:-1]] + [code(row[-1])]
        lines.append("| " + " | ".join(cells) + " |")
    for sentence in block.after:
        lines += ["", plain(sentence)]
    return [*lines, ""]


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"


def _value(row: Json, number: int) -> str:
    value = row["values"][number]
    if row["unit"] == "us":
        return value_text(None if value is None else value * 1000, "ns")
    return value_text(value, row["unit"])


def _change(row: Json, number: int) -> str:
    change = row["changes"][number]
    if row["unit"] == "us":
        return change_text(None if change is None else change * 1000, "ns")
    return change_text(change, row["unit"])


def _coverage(row: Json, part: range, expected: Sequence[int]) -> str:
    """How many launches the values rest on, where some launches lack the metric."""
    counts = [row["launches"][n] for n in part]
    if all(count in (0, expected[n]) for n, count in zip(part, counts, strict=True)):
        return ""
    return f" (of {', '.join(map(str, counts))} launches)"
