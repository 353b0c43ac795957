"""Configurations by their counters: every metric weighted by time, then kind of kernels by kind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import UNKNOWN, format_count, format_percent
from tracetui.analysis.counters.compared import ALL, COMMON
from tracetui.analysis.counters.metrics import METRICS
from tracetui.analysis.tables.nsight.configurations import CONFIGURATIONS
from tracetui.app.reports.counter_text import change_text, value_text
from tracetui.app.reports.layout import GAP, WIDTH, Layout, Shown
from tracetui.app.reports.parts import Block, listed
from tracetui.app.text.fitting import cell_width, letter_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.tables.table import Field

PER_TABLE = 5
"""Columns of numbers that have room in 80 characters, where they are narrow."""
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


def blocks(rows: Sequence[Json], weights: Mapping[str, str], layout: Layout) -> Iterator[Block]:
    """All tables of configurations: the metrics of all launches, changes from the first, and kinds of kernels.

    Args:
        rows: ``configurations`` of the report.
        weights: ``configuration_weights`` of the report.
        layout: how many kinds there is room for.
    """
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


def letter(number: int) -> str:
    """What a configuration is called in the tables."""
    return letter_of(number).upper()


def _metrics(heading: str, rows: Sequence[Json | None], weights: Mapping[str, str]) -> Iterator[Block]:
    """Metrics down, configurations across, then what changed from the first."""
    fields = measured(rows)
    if not fields:  # a table of which only the header is there
        return
    count = len(rows)
    pair = count == 2
    values = [[value(field, row) for row in rows] for field in fields]
    changes = [[change(field, row, rows[0]) for row in rows] for field in fields]
    labels = [LABELS[field.name] for field in fields]
    after = (weighted(weights, [field.name for field in fields]), *_not_covered(fields, rows))
    base = _launches(rows[0]) if count == 1 else ""
    for part in _parts(values, labels, range(count)):
        cells = [
            [*(shown[n] for n in part), *([moved[1]] if pair else []), label]
            for shown, moved, label in zip(values, changes, labels, strict=True)
        ]
        titles = [*(letter(n) if count > 1 else "" for n in part), *(["change"] if pair else []), "metric"]
        yield _block(heading, base, titles, cells, after if part[-1] == count - 1 else ())
    if count > 2:
        known = [n for n, row in enumerate(changes) if any(cell != UNKNOWN for cell in row[1:])]
        for part in _parts(changes, labels, range(1, count)):
            cells = [[*(changes[n][place] for place in part), labels[n]] for n in known]
            titles = [*(letter(n) for n in part), "metric"]
            yield _block(f"Change from {letter(0)}", "pt: percentage points", titles, cells)


def measured(rows: Sequence[Json | None]) -> list[Field]:
    """The metrics that any of the rows has."""
    return [
        field
        for field in CONFIGURATIONS.data_fields
        if field.name in LABELS and any(row is not None and row[field.json_key] is not None for row in rows)
    ]


def _parts(cells: Sequence[Sequence[str]], labels: Sequence[str], places: range) -> list[range]:
    """The columns of each table, as many as a line has room for beside the whole labels."""
    widths = [max(cell_width(row[n]) for row in cells) for n in places]
    room = WIDTH - len(GAP) - max(map(cell_width, labels))
    most = next((n for n in range(PER_TABLE, 1, -1) if n * (max(widths) + len(GAP)) <= room), 1)
    return [range(n, min(n + most, places.stop)) for n in range(places.start, places.stop, most)]


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
    """Says which reports hold only the beginning of a run; empty if none is known to.

    Args:
        stopped: the limit of launches by the name of the report.
    """
    if not stopped:
        return ""
    limits = " and ".join(str(limit) for limit in sorted(set(stopped.values())))
    return (
        f"ncu stopped after {limits} launches, as it was told ({'; '.join(stopped)}): these hold the beginning of their"
        " runs, and their sums say nothing of the whole."
    )


def _block(heading: str, base: str, titles: Sequence[str], cells: list[list[str]], after: Sequence[str] = ()) -> Block:
    last = len(titles) - 1
    columns = tuple(
        Shown(title, right=n < last, share=int(n == last), is_name=n == last) for n, title in enumerate(titles)
    )
    return Block(heading, base, columns, cells, after=tuple(after))


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
