"""Several reports of Nsight Compute as one table, a column per file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from tracetui.analysis.tables.field import Field
from tracetui.app.reports.counter_text import change_text, value_text

if TYPE_CHECKING:
    from tracetui.analysis.counters.compared import Compared


def side_by_side(found: Compared, *, ascii: bool = False) -> tuple[pl.DataFrame, tuple[Field, ...]]:
    """The comparison as a table: what was profiled, the means of each file, and the same kernel by kernel."""
    names = found.files["label"].to_list()
    rows: list[dict[str, Any]] = []

    def add(of: str, label: str, cells: list[str]) -> None:
        rows.append({"row": len(rows), "of": of, "label": label} | {f"file{n}": cell for n, cell in enumerate(cells)})

    add("all", "launches", [f"{count:,}" for count in found.files["launches"]])
    add("all", "kernels", [f"{count:,}" for count in found.files["kernels"]])
    if not found.same_kernels:
        add("common", "launches", [f"{count:,}" for count in found.files["common_launches"]])
    scopes = ["all", "kernel"] if found.same_kernels else ["all", "common", "kernel"]
    short = dict(found.kernels.select("name", "short_name").iter_rows())
    counts = dict(found.kernels.select("name", "launches").iter_rows())
    seen: set[str] = set()
    for scope in scopes:
        for row in found.metrics.filter(pl.col("of") == scope).iter_rows(named=True):
            of = {"all": "all", "common": "common"}.get(scope) or short[row["kernel"]]
            if scope == "kernel" and row["kernel"] not in seen:
                seen.add(row["kernel"])
                add(of, "launches", [f"{count:,}" for count in counts[row["kernel"]]])
            cells = [value_text(value, row["unit"], ascii=ascii) for value in row["values"]]
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
            about="all profiled ones; common: of kernels that every file profiled; or one kernel",
        ),
        Field(
            "label",
            "Metric",
            width=21,
            priority=0,
            about="mean over those launches that have it, each counting the same",
        ),
    ]
    for number, (name, path) in enumerate(zip(names, found.files["path"], strict=True)):
        columns.append(Field(f"file{number}", name, width=14, priority=0, flex=True, about=path))
    if len(names) == 2:
        about = "second file less the first; pt: percentage points"
        columns.append(Field("file2", "Change", width=12, priority=1, about=about))
    schema = {"row": pl.Int64(), **{column.name: pl.String() for column in columns}}
    return pl.DataFrame(rows, schema=schema), tuple(columns)
