"""Several reports of Nsight Compute as one table, a column per file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.counters.configurations import ALL, COMMON
from tracetui.analysis.tables.table import Field
from tracetui.app.reports.content.ncu.configurations import LABELS, change, measured, value
from tracetui.app.reports.counter_text import change_text, value_text

OF_KINDS = (
    "total_ns", "sm_percent", "memory_percent", "dram_percent", "l1_hit_percent", "l2_hit_percent",
    "occupancy_percent", "tensor_cores_percent",
)  # fmt: skip
"""What is shown of each kind of kernels."""

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.counters.compared import Compared


def side_by_side(
    found: Compared, configurations: Sequence[Json], *, ascii: bool = False
) -> tuple[pl.DataFrame, tuple[Field, ...]]:
    """The comparison as a table: what was profiled, the metrics of each file, by kind and kernel by kernel.

    Args:
        found: the files, kernel by kernel.
        configurations: the report's table of the same files, in the same order.
        ascii: whether only ASCII is shown.
    """
    names = found.files["label"].to_list()
    rows: list[dict[str, Any]] = []

    def add(of: str, label: str, cells: list[str]) -> None:
        rows.append({"row": len(rows), "of": of, "label": label} | {f"file{n}": cell for n, cell in enumerate(cells)})

    add("all", "launches", [f"{count:,}" for count in found.files["launches"]])
    add("all", "kernels", [f"{count:,}" for count in found.files["kernels"]])
    if not found.same_kernels:
        add("common", "launches", [f"{count:,}" for count in found.files["common_launches"]])
    for kind in dict.fromkeys(row["kind"] for row in configurations):
        of_kind = {row["configuration"]: row for row in configurations if row["kind"] == kind}
        mine = [of_kind.get(name) for name in dict.fromkeys(row["configuration"] for row in configurations)]
        for field in measured(mine):
            if kind in (ALL, COMMON) or field.name in OF_KINDS:
                cells = [value(field, row, ascii=ascii) for row in mine]
                if len(names) == 2:
                    cells.append(change(field, mine[1], mine[0], ascii=ascii))
                add(kind, LABELS[field.name], cells)
    short = dict(found.kernels.select("name", "short_name").iter_rows())
    counts = dict(found.kernels.select("name", "launches").iter_rows())
    seen: set[str] = set()
    for row in found.metrics.filter(pl.col("of") == "kernel").iter_rows(named=True):
        of = short[row["kernel"]]
        if row["kernel"] not in seen:
            seen.add(row["kernel"])
            add(of, "launches", [f"{count:,}" for count in counts[row["kernel"]]])
        cells = [value_text(number, row["unit"], ascii=ascii) for number in row["values"]]
        if len(names) == 2:
            cells.append(change_text(row["changes"][1], row["unit"], ascii=ascii))
        add(of, row["label"], cells)
    columns = [
        Field(
            "of",
            "Launches of",
            width=12,
            priority=0,
            flex=True,
            about="all profiled ones; common: of kernels that every file profiled; a kind of kernels; or one kernel",
        ),
        Field(
            "label",
            "Metric",
            width=21,
            priority=0,
            about="over those launches that have it, weighted by time; of one kernel each launch counts the same",
        ),
    ]
    for number, (name, path) in enumerate(zip(names, found.files["path"], strict=True)):
        columns.append(Field(f"file{number}", name, width=14, priority=0, flex=True, about=path))
    if len(names) == 2:
        about = "second file less the first; pt: percentage points"
        columns.append(Field("file2", "Change", width=12, priority=1, about=about))
    schema = {"row": pl.Int64(), **{column.name: pl.String() for column in columns}}
    return pl.DataFrame(rows, schema=schema), tuple(columns)
