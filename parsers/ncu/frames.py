"""Turns ncu's tables into device and counter rows: one device row per profiled launch, in the order of the file."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracetui.parsers import schema
from tracetui.parsers.ncu import nvtx
from tracetui.parsers.ncu.values import base_unit, decimal_comma, dimensions, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tracetui.parsers.ncu.tables import Table
    from tracetui.parsers.tally import Tally

EVIDENCE = 200_000
"""How many cells are checked to find out in which language numbers are written."""
RULES = {"opt": "opt", "wrn": "wrn", "war": "wrn", "inf": "inf", "err": "err"}
"""The kind of a counter row, by the first letters of a rule's type."""
NVTX_SECTION = "NVTX"
INVOCATIONS = ("Summary", "Invocations")
"""The section and metric that tell how many launches a summary row covers."""
EXTREMES = {"Minimum": " (minimum)", "Maximum": " (maximum)"}
"""Columns of a summary, and the suffixes of their metrics; the mean has none."""
DURATIONS = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max", "Duration")
REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
STATIC_SHARED = ("launch__shared_mem_per_block_static", "Static Shared Memory Per Block")
DYNAMIC_SHARED = ("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block")
WITHOUT_VALUE = ("n/a", "nan", "-nan", "inf", "-inf", "no data")
"""What ncu writes for a metric without a value."""

_IDENTITY = (
    "ID",
    "Process ID",
    "Process Name",
    "Kernel Time",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
)


class Launches(Struct):
    """What identifies each launch, in the file's spelling; lists of equal length."""

    names: list[str] = field(default_factory=list)
    identity: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _IDENTITY})

    def __len__(self) -> int:
        """The number of launches."""
        return len(self.names)

    def add(self, table: Table, record: Sequence[str]) -> int:
        """Appends a launch; returns its row."""
        place = table.name_column
        self.names.append(record[place].strip() if place is not None else "(all kernels)")
        for name, values in self.identity.items():
            at = table.column.get(name)
            values.append(record[at].strip() if at is not None else "")
        return len(self.names) - 1


def counter_rows(table: Table, launches: Launches, tally: Tally) -> pl.DataFrame:
    """Appends the launches of a table; returns its counters, with the columns of `schema.COUNTERS`."""
    first = len(launches)
    if table.form == "wide":
        rows = [launches.add(table, record) for record in table.records]
        frames = _wide(table, rows, tally)
        firsts = dict(zip(rows, table.records, strict=True))
    else:
        rows, firsts = _grouped(table, launches)
        frames = [_long(table, rows, tally)] if table.form == "long" else _summary(table, rows, firsts, tally)
    frames += [_nvtx(kind, place, firsts) for kind, place in table.nvtx_columns.items()]
    if first == len(launches) or not frames:  # no launch, or none with a metric
        return schema.empty(schema.COUNTERS)
    return pl.concat(frames)


def device_frame(launches: Launches, counters: pl.DataFrame) -> pl.DataFrame:
    """One device row per launch; its start is unknown, and so is its duration unless it was measured."""
    size = len(launches)
    value = _lookup(counters, size)
    columns: dict[str, pl.Series] = {
        "kind": pl.Series(["kernel"] * size, dtype=pl.String).cast(schema.DeviceKind),
        "name": pl.Series(launches.names, dtype=pl.String).cast(schema.Name),
        "duration": _whole(value(DURATIONS)),
        "process": _integers(launches.identity["Process ID"]),
        "device": _integers(launches.identity["Device"]),
        "stream": _integers(launches.identity["Stream"]),
        "context": _integers(launches.identity["Context"]),
        "registers": _whole(value(REGISTERS)),
        "shared_memory": _whole(value(STATIC_SHARED) + value(DYNAMIC_SHARED)),
    }
    for name, spelled in (("grid", "Grid Size"), ("block", "Block Size")):
        found = dimensions(launches.identity[spelled])
        axes = [value((f"launch__{name}_dim_{axis}",)).to_list() for axis in "xyz"]
        for row, sizes in enumerate(zip(*axes, strict=True)):
            if found[row] is None and all(size is not None and 0 <= size < 1 << 31 for size in sizes):
                found[row] = [int(size) for size in sizes]
        columns[name] = pl.Series(found, dtype=schema.Dim3)
    return pl.DataFrame(
        [
            columns[name].alias(name) if name in columns else pl.repeat(None, size, dtype=dtype, eager=True).alias(name)
            for name, dtype in schema.DEVICE.items()
        ]
    )


def _whole(measured: pl.Series) -> pl.Series:
    """As whole numbers; a value below 0 or beyond 64 bits was not measured, so it is null."""
    rounded = measured.round(0)
    return pl.select(pl.when(rounded >= 0).then(rounded.cast(pl.Int64, strict=False))).to_series()


def rows_of(counters: pl.DataFrame, metrics: list[str]) -> pl.DataFrame:
    """The rows of these metrics: ``device_row, metric, value, text``, names as strings."""
    # by code, not by text: a raw page has millions of rows
    wanted = pl.DataFrame({"metric": pl.Series(metrics, dtype=pl.String).cast(schema.Name)})
    found = counters.lazy().join(wanted.lazy(), on="metric", how="semi", maintain_order="left")
    return found.select("device_row", pl.col("metric").cast(pl.String), "value", "text").collect()


def _lookup(counters: pl.DataFrame, size: int) -> Callable[[tuple[str, ...]], pl.Series]:
    """For each row, the value of the first of several metrics that the launch has."""
    wanted = {*DURATIONS, *REGISTERS, *STATIC_SHARED, *DYNAMIC_SHARED}
    wanted |= {f"launch__{name}_dim_{axis}" for name in ("grid", "block") for axis in "xyz"}
    known = rows_of(counters, sorted(wanted)).filter(pl.col("value").is_not_null())
    of_metric = known.partition_by("metric", as_dict=True)

    def value(metrics: tuple[str, ...]) -> pl.Series:
        found = np.full(size, np.nan)
        for metric in reversed(metrics):
            if (rows := of_metric.get((metric,))) is not None:
                found[rows["device_row"].to_numpy()] = rows["value"].to_numpy()
        return pl.Series(found, nan_to_null=True)

    return value


def _integers(texts: Iterable[str]) -> pl.Series:
    numbers: pl.Series = pl.Series(list(texts), dtype=pl.String).str.replace_all(",", "").cast(pl.Int64, strict=False)
    return numbers


def _grouped(table: Table, launches: Launches) -> tuple[list[int], dict[int, list[str]]]:
    """Returns the launch of each record, and the first record of each launch."""
    places = [place for name, place in table.column.items() if name in _IDENTITY]
    if table.name_column is not None:
        places.append(table.name_column)
    # two places at least, so that a tuple comes out
    identify = itemgetter(*places, places[0])
    known: dict[tuple[str, ...], int] = {}
    firsts: dict[int, list[str]] = {}
    rows: list[int] = []
    for record in table.records:
        key = identify(record)
        row = known.get(key)
        if row is None:
            known[key] = row = launches.add(table, record)
            firsts[row] = record
        rows.append(row)
    return rows, firsts


def _wide(table: Table, rows: list[int], tally: Tally) -> list[pl.DataFrame]:
    places = table.metric_columns
    metrics = pl.Series([table.header[place] for place in places], dtype=pl.String).cast(schema.Name)
    units, factors = _units([table.units[place] if place < len(table.units) else "" for place in places])
    units = units.cast(schema.Name)
    frames: list[pl.DataFrame] = []
    comma = bool(table.cells) and decimal_comma(table.cells[0])
    first = 0
    for cells in table.cells:
        number = len(cells) // len(places)
        which = pl.Series(np.tile(np.arange(len(places), dtype=np.uint32), number))
        frames.append(
            _rows(
                rows=np.repeat(rows[first : first + number], len(places)),
                cells=cells,
                factors=np.tile(factors, number),
                metric=metrics.gather(which),
                unit=units.gather(which),
                section=None,
                tally=tally,
                comma=comma,
            )
        )
        first += number
    return frames


def _texts(table: Table, name: str) -> pl.Series:
    """A column of the table; empty for a record that ends before it."""
    place = table.column.get(name)
    if place is None:
        return pl.Series([""] * len(table.records), dtype=pl.String)
    return pl.Series([record[place] if place < len(record) else "" for record in table.records], dtype=pl.String)


def _long(table: Table, rows: list[int], tally: Tally) -> pl.DataFrame:
    metric, rule = _texts(table, "Metric Name").str.strip_chars(), _texts(table, "Rule Name").str.strip_chars()
    section = _texts(table, "Section Name").str.strip_chars()
    units, factors = _units(_texts(table, "Metric Unit").to_list())
    measured = _rows(
        rows=np.asarray(rows),
        cells=_texts(table, "Metric Value"),
        factors=factors,
        metric=metric.cast(schema.Name),
        unit=units.cast(schema.Name),
        section=section,
        tally=tally,
    ).filter(pl.col("metric").cast(pl.String) != "")
    speedup, _ = parse(_texts(table, "Estimated Speedup"))
    said = pl.DataFrame(
        {
            "kind": _texts(table, "Rule Type").str.strip_chars().str.to_lowercase().str.slice(0, 3),
            "device_row": pl.Series(rows, dtype=schema.RowId),
            "time": pl.repeat(None, len(rows), dtype=pl.Int64, eager=True),
            "section": section.cast(schema.Name),
            "metric": rule.cast(schema.Name),
            "unit": _none_if_empty(_texts(table, "Estimated Speedup Type").str.strip_chars()).cast(schema.Name),
            "value": speedup,
            "text": _texts(table, "Rule Description"),
        }
    )
    said = said.with_columns(pl.col("kind").replace_strict(RULES, default="inf").cast(schema.CounterKind))
    said = said.filter((rule != "") & (metric == ""))
    return pl.concat([measured, said])


def _summary(table: Table, rows: list[int], firsts: dict[int, list[str]], tally: Tally) -> list[pl.DataFrame]:
    units, factors = _units(_texts(table, "Metric Unit").to_list())
    frames = []
    for name, suffix in {"Average": "", **EXTREMES}.items():
        frames.append(
            _rows(
                rows=np.asarray(rows),
                cells=_texts(table, name),
                factors=factors,
                metric=(_texts(table, "Metric Name").str.strip_chars() + suffix).cast(schema.Name),
                unit=units.cast(schema.Name),
                section=_texts(table, "Section Name").str.strip_chars(),
                tally=tally,
            )
        )
    place = table.column.get("Invocations")
    if place is not None:
        section, metric = INVOCATIONS
        number = len(firsts)
        frames.append(
            _rows(
                rows=np.asarray(list(firsts)),
                cells=pl.Series([record[place] for record in firsts.values()], dtype=pl.String),
                factors=np.ones(number),
                metric=pl.Series([metric] * number, dtype=pl.String).cast(schema.Name),
                unit=pl.Series([""] * number, dtype=pl.String).cast(schema.Name),
                section=pl.Series([section] * number, dtype=pl.String),
                tally=tally,
            )
        )
    return frames


def _nvtx(kind: str, place: int, firsts: dict[int, list[str]]) -> pl.DataFrame:
    found = {
        row: "/".join(names)
        for row, record in firsts.items()
        if (names := nvtx.ranges(record[place] if place < len(record) else ""))
    }
    size = len(found)
    return pl.DataFrame(
        {
            "kind": pl.Series(["metric"] * size, dtype=pl.String).cast(schema.CounterKind),
            "device_row": pl.Series(list(found), dtype=schema.RowId),
            "time": pl.repeat(None, size, dtype=pl.Int64, eager=True),
            "section": pl.Series([NVTX_SECTION] * size, dtype=pl.String).cast(schema.Name),
            "metric": pl.Series([kind] * size, dtype=pl.String).cast(schema.Name),
            "unit": pl.repeat(None, size, dtype=pl.String, eager=True).cast(schema.Name),
            "value": pl.repeat(None, size, dtype=pl.Float64, eager=True),
            "text": pl.Series(list(found.values()), dtype=pl.String),
        }
    )


def _units(spelled: list[str]) -> tuple[pl.Series, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """The base unit of each, and the factor for its value."""
    found = [base_unit(unit) for unit in spelled]
    return pl.Series([unit for unit, _ in found], dtype=pl.String), np.array(
        [factor for _, factor in found], np.float64
    )


def _times(value: pl.Series, factors: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> pl.Series:
    """The values in base units, without the rounding error of multiplying decimals."""
    factor = pl.Series(factors)
    exact: pl.Series = (value * factor).round_sig_figs(15)
    return pl.select(pl.when(factor == 1).then(value).otherwise(exact)).to_series()


def _none_if_empty(texts: pl.Series) -> pl.Series:
    return pl.select(pl.when(texts != "").then(texts)).to_series()


def _repeated(value: str | None, dtype: pl.DataType | type[pl.DataType], size: int) -> pl.Series:
    repeated: pl.Series = pl.Series([value], dtype=dtype).new_from_index(0, size)
    return repeated


def _rows(
    *,
    rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    cells: pl.Series,
    factors: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    metric: pl.Series,
    unit: pl.Series,
    section: pl.Series | None,
    tally: Tally,
    comma: bool | None = None,
) -> pl.DataFrame:
    """Counter rows of kind ``metric``; an empty cell gives no row."""
    comma = decimal_comma(cells.head(EVIDENCE)) if comma is None else comma
    if comma:
        tally.repaired("numbers with a decimal comma", len(cells))
    value, text = parse(cells, comma=comma)
    size = len(cells)
    frame = pl.DataFrame(
        {
            "kind": _repeated("metric", schema.CounterKind, size),
            "device_row": pl.Series(rows, dtype=schema.RowId),
            "time": _repeated(None, pl.Int64(), size),
            "section": _repeated(None, schema.Name, size) if section is None else section.cast(schema.Name),
            "metric": metric,
            "unit": unit,
            "value": _times(value, factors),
            "text": text,
        }
    ).filter(pl.col("value").is_not_null() | pl.col("text").is_not_null())
    without = frame.filter(pl.col("text").is_not_null()).filter(
        pl.col("text").str.to_lowercase().str.strip_prefix("(!)").str.strip_chars().is_in(WITHOUT_VALUE)
    )
    if without.height:
        example = without.select(pl.concat_str(pl.col("metric").cast(pl.String), pl.lit(" = "), "text")).item(0, 0)
        tally.missing("metric without a value", without.height, example)
    return frame
