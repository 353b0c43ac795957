"""Hardware counters in the reports: by kernel, several files side by side, and as configurations by kind of kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tracetui.analysis.base.json_values import Json
from tracetui.analysis.base.number_format import UNKNOWN, format_count, format_percent
from tracetui.analysis.counters.compared import ALL, COMMON
from tracetui.analysis.counters.metrics import METRICS
from tracetui.analysis.report.model import CountedMetric, CountersCompared, Run, Trace
from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS
from tracetui.analysis.tables.nsight.counters import COUNTERS, NCU_RULES, OCCUPANCY
from tracetui.analysis.tables.table import Field
from tracetui.app.reports.content.side_by_side import letter, lettered, most_across
from tracetui.app.reports.counter_text import caution_text, change_text, gaps_text, value_text
from tracetui.app.reports.layout import Layout, Shown
from tracetui.app.reports.parts import Block, listed

RULES_SHOWN = 5
BY_KERNEL = (
    "duration_us", "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent",
    "occupancy_percent",
)  # fmt: skip
"""What is compared kernel by kernel in a text; the JSON has every metric."""


LABELS = {
    **{metric.column: metric.label for metric in METRICS},
    "total_ns": "total time",
    "duration_ns": "mean duration",
    "theoretical_occupancy_percent": "theor. occupancy",
    "registers": "registers/thread",
    "shared_memory": "shared mem/block",
    "tensor_cores_percent": "on tensor cores",
    "dram_bytes": "DRAM bytes",
    "dram_rate": "DRAM bytes/s",
    "flops": "FLOP",
    "flop_rate": "FLOP/s",
    "intensity": "FLOP/DRAM byte",
    "sectors_per_load": "sectors/load",
    "sectors_per_store": "sectors/store",
}
"""What the metrics are called in a column beside up to five others."""
ROUNDING = 1e-9
"""Sums that differ by less of each other are equal: FLOPs are products of rates and times."""
UNITS = {"dram_rate": "byte/s", "flop_rate": "FLOP/s", "flops": "FLOP"}
"""Units of columns whose kind does not tell."""
BY_KIND = {"time": "ns", "percent": "%", "bytes": "byte"}
HEADINGS = {
    ALL: "Counters of all profiled launches",
    COMMON: "Counters of the kernels that every file profiled",
}


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
    """Several reports side by side, called A, B, C, … in tables that fit a line."""
    found = run.counters_compared
    if not found:
        return
    files = found.files
    columns = (*map(Shown, ("", "launches", "kernels", "time")), Shown("file", right=False, share=1, is_name=True))
    cells = [
        [
            letter(number),
            format_count(file.launches),
            format_count(file.kernels),
            layout.time(file.total_us),
            file.label,
        ]
        for number, file in enumerate(files)
    ]
    profiled = [(file.launches, file.kernels) for file in files]
    unread = (f"Not read: {problem}" for problem in found.problems)
    after = (caution_text(profiled, same=found.same_kernels), *unread)
    yield Block("Reports side by side", "what was profiled", columns, cells, after=after)
    yield from configuration_blocks(run.configurations or [], run.configuration_weights or {}, layout)
    yield from kernel_blocks(found, layout)


def kernel_blocks(found: CountersCompared, layout: Layout, *, counts: bool = True) -> Iterator[Block]:
    """With `counts` how often each file profiled each kernel, then what was measured of it (``counters_compared``)."""
    letters = [letter(number) for number in range(len(found.files))]
    names = {row.name: row.short_name or row.name for row in found.kernels[: layout.limit]}
    if counts:
        launches = [[format_count(many) for many in row.launches] for row in found.kernels[: layout.limit]]
        block = Block("Profiled kernels", "launches", whole=found.kernel_count)
        yield from lettered(block, letters, launches, ("kernel", list(names.values())))
    for metric in BY_KERNEL:
        metrics = [
            row
            for row in found.metrics
            if row.of == "kernel" and row.metric == metric and row.kernel in names
            and sum(1 for value in row.values if value is not None) > 1
        ]  # fmt: skip
        if metrics:
            yield from lettered(
                Block(f"Kernel by kernel: {metrics[0].label}", "mean of its launches"),
                letters,
                [list(_cells(row)) for row in metrics],
                ("kernel", [names[row.kernel or ""] for row in metrics]),
            )


def _cells(row: CountedMetric) -> Iterator[str]:
    """A metric in each file, and of two files its change."""
    in_us = row.unit == "us"
    unit = "ns" if in_us else row.unit
    numbers = [*row.values, row.changes[-1]]
    *values, change = (number * 1000 if in_us and number is not None else number for number in numbers)
    yield from (value_text(number, unit) for number in values)
    if len(values) == 2:
        yield change_text(change, unit)


def configuration_blocks(rows: Sequence[Json], weights: Mapping[str, str], layout: Layout) -> Iterator[Block]:
    """All tables of ``configurations``: the metrics of all launches, changes from the first, and kinds of kernels."""
    names = list(dict.fromkeys(row["configuration"] for row in rows))
    for kind in (ALL, COMMON):
        of_kind = {row["configuration"]: row for row in rows if row["kind"] == kind}
        chosen = [of_kind.get(name) for name in names]
        if of_kind:
            yield from _metrics(HEADINGS[kind], chosen, weights)
    yield by_kind(rows, names, layout)


def listing(rows: Sequence[Json]) -> Iterator[Block]:
    """What each configuration is called in the tables, where there are several."""
    whole = [row for row in rows if row["kind"] == ALL]
    if len(whole) > 1:
        fields = CONFIGURATIONS.chosen(("launches", "kernels", "total_ns", "configuration"))
        letters = [{**row, "kind": letter(number)} for number, row in enumerate(whole)]
        first = replace(CONFIGURATIONS.field("kind"), title=" ")
        yield listed(CONFIGURATIONS, letters, Layout(), fields=(first, *fields), heading="Configurations", whole=0)


def by_kind(rows: Sequence[Json], names: Sequence[str], layout: Layout) -> Block:
    """The table by kind of kernels, each kind's configurations below each other."""
    fields = [field for field in CONFIGURATIONS.chosen(CONFIGURATIONS.reports) if field.name != "dram_percent"]
    *fields, last = fields
    one = len(names) < 2
    if one:
        fields.insert(1, CONFIGURATIONS.field("launches"))
    else:
        fields.insert(1, replace(last, title=" ", flex=False))
    letters = {name: letter(number) for number, name in enumerate(names)}
    shown = [
        {**row, "configuration": letters[row["configuration"]]} for row in rows if row["kind"] not in (ALL, COMMON)
    ]
    kinds = list(dict.fromkeys(row["kind"] for row in shown))[: layout.limit]
    most = sum(row["kind"] in kinds for row in shown)
    return listed(
        CONFIGURATIONS, shown, replace(layout, limit=most), fields=fields, heading="By kind of kernel",
        base="of profiled time",
    )  # fmt: skip


def _metrics(heading: str, rows: Sequence[Json | None], weights: Mapping[str, str]) -> Iterator[Block]:
    """Metrics down, configurations across, then what changed from the first."""
    fields = measured(rows)
    if not fields:  # a table of which only the header is there
        return
    count = len(rows)
    letters = [letter(n) if count > 1 else "" for n in range(count)]
    values = [[value(field, row) for row in rows] for field in fields]
    changes = [[change(field, row, rows[0]) for row in rows[1:]] for field in fields]
    labels = [LABELS[field.name] for field in fields]
    after = (weighted(weights, [field.name for field in fields]), *_not_covered(fields, rows))
    block = Block(heading, _launches(rows[0]) if count == 1 else "", after=after)
    shown = [[*row, *moved] for row, moved in zip(values, changes, strict=True)] if count == 2 else values
    yield from lettered(block, letters, shown, ("metric", labels), most=most_across(values, labels))
    if count > 2:
        known = [(row, label) for row, label in zip(changes, labels, strict=True) if set(row) != {UNKNOWN}]
        block = Block(f"Change from {letter(0)}", "pt: percentage points")
        named = ("metric", [label for _, label in known])
        most = most_across(changes, labels)
        yield from lettered(block, letters[1:], [row for row, _ in known], named, most=most)


def measured(rows: Sequence[Json | None]) -> list[Field]:
    """The metrics that any of the rows has."""
    return [
        field
        for field in CONFIGURATIONS.data_fields
        if field.name in LABELS and any(row is not None and row[field.json_key] is not None for row in rows)
    ]


def _not_covered(fields: Sequence[Field], rows: Sequence[Json | None]) -> Iterator[str]:
    """Says of which counters some launches have none, and how much of the time the others are."""
    for field in fields:
        key = f"{field.json_key}_covered"
        shares = [(letter(n), row[key]) for n, row in enumerate(rows) if row is not None and row.get(key)]
        if any(share < 100 - 1e-6 for _, share in shares):
            told = [f"{format_percent(share)} of {name}'s" if len(rows) > 1 else format_percent(share)
                    for name, share in shares]  # fmt: skip
            whose = "" if len(rows) > 1 else " of the"
            yield f"{LABELS[field.name]}: of launches with {', '.join(told)}{whose} time."


def weighted(weights: Mapping[str, str], shown: Collection[str]) -> str:
    """Says how launches count: by time, and which of the metrics that are shown by what else."""
    if not weights:
        return ""
    if all(word == "launches" for word in weights.values()):
        return "No times in the files: each launch counts the same."
    others: dict[str, list[str]] = {}
    for column, word in weights.items():
        if word != "time" and column in shown:
            others.setdefault(word, []).append(LABELS[column])
    said = "; ".join(f"{', '.join(names)} by {word}" for word, names in others.items())
    return f"Weighted by time{f'; {said}' if said else ''}."


def stopped_text(stopped: Mapping[str, int]) -> str:
    """Which reports hold the first launches of a run, by their name how many they were told to; empty if none does."""
    if not stopped:
        return ""
    limits = " and ".join(str(limit) for limit in sorted(set(stopped.values())))
    return (
        f"ncu stopped after {limits} launches, as it was told ({'; '.join(stopped)}): these hold the beginning of their"
        " runs, and their sums say nothing of the whole."
    )


def _launches(row: Json | None) -> str:
    return "none" if row is None else f"{format_count(row['launches'])} launch{'' if row['launches'] == 1 else 'es'}"


def _unit(field: Field) -> str:
    return UNITS.get(field.name) or BY_KIND.get(field.kind, "")


def _number(field: Field, row: Json | None) -> float | None:
    value = None if row is None else row[field.json_key]
    return value * 1000 if value is not None and field.kind == "time" else value


def value(field: Field, row: Json | None, *, ascii: bool = False) -> str:
    """A metric of a configuration in words."""
    return value_text(_number(field, row), _unit(field), ascii=ascii)


def change(field: Field, row: Json | None, first: Json | None, *, ascii: bool = False) -> str:
    """How much a metric of a configuration is above that of the first."""
    number, base = _number(field, row), _number(field, first)
    if number is None or base is None:
        return UNKNOWN
    moved = 0.0 if abs(number - base) < ROUNDING * abs(base) else number - base
    return change_text(moved, _unit(field), ascii=ascii)
