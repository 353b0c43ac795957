"""Hardware counters in the reports: by kernel, and several files side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracetui.analysis.base.number_format import format_count
from tracetui.analysis.tables.nsight.counters import COUNTERS, NCU_RULES, OCCUPANCY
from tracetui.app.reports.content.ncu import configurations
from tracetui.app.reports.counter_text import caution_text, change_text, gaps_text, value_text
from tracetui.app.reports.layout import Shown
from tracetui.app.reports.parts import Block, listed
from tracetui.app.text.fitting import letter_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.report.model import Run, Trace
    from tracetui.app.reports.layout import Layout

RULES_SHOWN = 5
BY_KERNEL = (
    "duration_us", "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent",
    "occupancy_percent",
)  # fmt: skip
"""What is compared kernel by kernel in a text; the JSON has every metric."""


def blocks(trace: Trace, layout: Layout) -> Iterator[Block]:
    """A recording's counters by kernel, what was not collected, and what ncu advises."""
    kernels = trace.counters_by_kernel or []
    if not kernels:
        return
    gaps = trace.counters_missing
    launches = sum(row["launches"] for row in kernels)
    base = f"means of {format_count(launches)} launches; % of peak"
    after = tuple(gaps_text(gaps.what, gaps.command).split("\n")) if gaps else ()
    rows = [{**row, "name": row["kernel"]} for row in kernels]
    yield listed(COUNTERS, rows, layout, base=base, after=after)
    yield listed(
        COUNTERS, rows, layout, fields=COUNTERS.chosen(OCCUPANCY), heading="Occupancy",
        base="what limits it, launch shape",
    )  # fmt: skip
    said = [{**rule, "kernel": row["kernel"], "short_name": row["short_name"]} for row in kernels
            for rule in row["rules"] if rule["gain_us"]]  # fmt: skip
    said.sort(key=lambda rule: -rule["gain_us"])
    if said:
        most = min(layout.limit, RULES_SHOWN) if layout.limit else RULES_SHOWN if layout.limit == 0 else None
        rules = replace(layout, limit=most)
        yield listed(NCU_RULES, said, rules)


def compared_blocks(run: Run, layout: Layout) -> Iterator[Block]:
    """Several reports side by side, called A, B, C, … in tables that fit a line.

    Args:
        run: the run's part of the report.
        layout: how many rows there are room for.
    """
    found = run.counters_compared or {}
    files = found["files"]
    letters = [letter_of(number).upper() for number in range(len(files))]
    profiled = [(file["launches"], file["kernels"]) for file in files]
    listed_files = [
        [
            letters[n],
            format_count(file["launches"]),
            format_count(file["kernels"]),
            layout.time(file["total_us"]),
            file["label"],
        ]
        for n, file in enumerate(files)
    ]
    yield _block(
        "Reports side by side",
        "what was profiled",
        ("", "launches", "kernels", "time", "file"),
        listed_files,
        after=(
            caution_text(profiled, same=found["same_kernels"]),
            *(f"Not read: {problem}" for problem in found["problems"]),
        ),
    )
    yield from configurations.blocks(run.configurations or [], run.configuration_weights or {}, layout)
    yield from kernel_blocks(found, letters, layout)


def _block(heading: str, base: str, titles: Sequence[str], rows: list[list[str]], **more: Any) -> Block:
    """A table of numbers whose last column names what they are of."""
    last = len(titles) - 1
    columns = tuple(
        Shown(title, right=n < last, share=int(n == last), is_name=n == last) for n, title in enumerate(titles)
    )
    return Block(heading, base, columns, rows, **more)


def kernel_blocks(found: Json, letters: Sequence[str], layout: Layout, *, counts: bool = True) -> Iterator[Block]:
    """How often each file profiled each kernel, and what was measured of it.

    Args:
        found: ``counters_compared`` of the report.
        letters: what the files are called.
        layout: how many rows there are room for.
        counts: whether to begin with how often.
    """
    per_table = configurations.PER_TABLE
    kernels = found["kernels"][: layout.limit]
    for begin in range(0, len(letters), per_table) if counts else ():
        part = range(begin, min(begin + per_table, len(letters)))
        yield _block(
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
            yield _block(
                f"Kernel by kernel: {metrics[0]['label']}",
                "mean of its launches",
                (*(letters[n] for n in part), *(("change",) if pair else ()), "kernel"),
                [
                    [*(_value(row, n) for n in part), *((_change(row, 1),) if pair else ()), names[row["kernel"]]]
                    for row in metrics
                ],
            )


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
