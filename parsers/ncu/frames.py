"""Turns ncu's tables into device and counter rows: one device row per profiled launch, in the order of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter

import numpy as np
import polars as pl
from msgspec import Struct, field

from tracetui.parsers import schema
from tracetui.parsers.ncu.tables import Table
from tracetui.parsers.tally import Tally

_PREFIXES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""Decimal: 32.77 Kbyte are 32,768 bytes."""
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SECONDS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9,
    "nsecond": 1e-9, "ps": 1e-12, "psecond": 1e-12,
}  # fmt: skip
_SCALABLE = re.compile(r"(Ki|Mi|Gi|Ti|[KkMGTP])?(byte|bytes|hz|Hz|bit|flop|inst|sector|cycle|request|B)")

ENGLISH = r"^[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?$|^[-+]?\.\d+(?:[eE][-+]?\d+)?$"
GERMAN = r"^[-+]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d*)?(?:[eE][-+]?\d+)?$"
_ONLY_ENGLISH = (
    r"^[-+]?(?:\d{1,3}(?:,\d{3}){2,}|[\d,]*\d\.(?:\d{1,2}|\d{4,})|\d{1,3}(?:,\d{3})+\.\d+|0\.\d+|\d{4,}\.\d+)$"
)
_ONLY_GERMAN = r"^[-+]?(?:\d{1,3}(?:\.\d{3}){2,}|[\d.]*\d,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+|0,\d+|\d{4,},\d+)$"
_SPACED = "[\u00a0\u202f\u2009'\u2019 ]"
_INSTANCES = r"^([-+0-9.,eE]+)\s*[(\[{;].*$"
_MARK = r"^\(!\)\s*"
_PERCENT = r"\s*%$"
_DIMENSION = re.compile(r"\d+")
_LONGEST_DIMENSION = 10


@lru_cache(maxsize=1024)
def base_unit(unit: str) -> tuple[str, float]:
    """The unit without its prefix, and the factor: ``("byte/s", 1e9)`` for ``Gbyte/second``.

    Times become ns, but rates become per second; cycles per second become hz.
    """
    unit = unit.strip()
    top, slash, bottom = unit.partition("/")
    if not slash:
        if unit in _SECONDS:
            return "ns", _nanoseconds(unit)
        base, factor = _scaled(unit)
        return base, factor
    base, factor = ("ns", _nanoseconds(top)) if top in _SECONDS else _scaled(top)
    if bottom in _SECONDS:
        factor /= _SECONDS[bottom]
        if _SECONDS[bottom] < 1:
            factor = round(factor)
        return ("hz", factor) if base == "cycle" else (f"{base}/s", factor)
    below, divisor = _scaled(bottom)
    return f"{base}/{below}", factor / divisor


def _nanoseconds(unit: str) -> float:
    return float(round(_SECONDS[unit] * 1e9)) if _SECONDS[unit] >= 1e-9 else 1e-3


def _scaled(unit: str) -> tuple[str, float]:
    found = _SCALABLE.fullmatch(unit)
    if found is None:
        return unit, 1.0
    prefix = found[1] or ""
    base = {"B": "byte", "bytes": "byte", "Hz": "hz"}.get(found[2], found[2])
    return base, _BINARY[prefix] if prefix in _BINARY else _PREFIXES[prefix]


def decimal_comma(cells: pl.Series) -> bool:
    """Whether the numbers among these texts are written 1.234,5 rather than 1,234.5.

    A single separator before three digits can mean either and does not count. Without evidence it is 1,234.5.
    """
    # ncu writes numbers in the language of the machine on which it ran
    german = int(cells.str.contains(_ONLY_GERMAN).sum())
    return german > int(cells.str.contains(_ONLY_ENGLISH).sum())


def parse(cells: pl.Series, *, comma: bool = False) -> tuple[pl.Series, pl.Series]:
    """Returns (numbers, texts) of cells: each cell is a number, or a text instead of one, or neither if it is empty.

    A cell with the instances of a metric (``158 (0: 79; 1: 79)``) counts as its total; ``nan``, ``inf``, ``n/a`` and
    lists such as ``0,1,2`` are not numbers.
    """
    trimmed = cells.str.strip_chars()
    if comma:
        return _spelled(trimmed, comma=True)
    # most cells are plain numbers, which need no pattern
    direct = trimmed.cast(pl.Float64, strict=False)
    frame = pl.DataFrame({"direct": direct, "raw": trimmed})
    rest = frame.filter(~pl.col("direct").is_finite().fill_null(value=False) & (pl.col("raw") != ""))
    if rest.height == frame.height:
        return _spelled(trimmed, comma=False)
    # a metric has the same few texts in many launches
    texts = rest["raw"].unique()
    number, text = _spelled(texts, comma=False)
    spelled = pl.DataFrame({"raw": texts, "number": number, "text": text})
    found = frame.join(spelled, on="raw", how="left", maintain_order="left")
    known = pl.col("direct").is_finite()
    found = found.select("text", number=pl.when(known).then("direct").otherwise("number"))
    return found["number"], found["text"]


def _spelled(trimmed: pl.Series, *, comma: bool) -> tuple[pl.Series, pl.Series]:
    """`parse` for cells of any spelling, already stripped."""
    plain = trimmed.str.replace(_MARK, "").str.replace(_INSTANCES, "$1").str.replace(_PERCENT, "")
    spaced = rf"^[-+]?\d{{1,3}}(?:{_SPACED}\d{{3}})+(?:[.,]\d+)?$"
    thousands, point = (".", ",") if comma else (",", ".")
    frame = pl.DataFrame({"plain": plain, "raw": trimmed})
    joined = (
        pl.when(pl.col("plain").str.contains(spaced))
        .then(pl.col("plain").str.replace_all(_SPACED, ""))
        .otherwise(pl.col("plain"))
    )
    digits = joined.str.replace_all(thousands, "", literal=True).str.replace(point, ".", literal=True)
    number = pl.when(joined.str.contains(GERMAN if comma else ENGLISH)).then(digits).cast(pl.Float64, strict=False)
    found = frame.select(number=pl.when(number.is_finite()).then(number), raw="raw")
    text = found.select(pl.when(pl.col("number").is_null() & (pl.col("raw") != "")).then("raw")).to_series()
    return found["number"], text


def dimensions(texts: Iterable[str]) -> list[list[int] | None]:
    """Reads ``(256, 1, 1)`` as three numbers; None for any other text."""
    found: list[list[int] | None] = []
    for text in texts:
        written = _DIMENSION.findall(text)
        # Python refuses to make a number of thousands of digits
        parts = [int(part) for part in written if len(part) <= _LONGEST_DIMENSION]
        usable = 0 < len(parts) == len(written) <= 3 and max(parts) < 1 << 31
        found.append([*parts, *[1] * (3 - len(parts))] if usable else None)
    return found


_QUOTED = re.compile(r'"((?:[^"]|"(?!\s|$))*)"')
_ATTRIBUTES = 6
"""Payload type and value, colour type and colour, message type and message follow domain and name."""
DEFAULT_DOMAIN = "<default domain>"


@lru_cache(maxsize=4096)
def ranges(cell: str) -> tuple[str, ...]:
    """The names in a cell, outermost first; those of a domain other than the default one as ``domain:name``.

    A cell holds a thread or range id and then, for each range, ``"domain:name:none:none:none:none:none:none"``.
    """
    return tuple(name for name in map(_name, _QUOTED.findall(cell)) if name)


def _name(text: str) -> str:
    domain, colon, rest = text.partition(":")
    if not colon:
        return text
    parts = rest.rsplit(":", _ATTRIBUTES)
    # some scripts print fewer attributes than ncu
    name = parts[0] if len(parts) == _ATTRIBUTES + 1 else rest.partition(":")[0]
    message = parts[-1] if len(parts) == _ATTRIBUTES + 1 else "none"
    if name in ("", "none") and message not in ("", "none"):
        name = message
    return name if domain in ("", DEFAULT_DOMAIN) else f"{domain}:{name}"


EVIDENCE = 200_000
"""How many cells are checked to find out in which language numbers are written."""
RULES = {"opt": "opt", "wrn": "wrn", "war": "wrn", "inf": "inf", "err": "err"}
"""The kind of a counter row, by the first letters of a rule's type."""
NVTX_SECTION = "NVTX"
INVOCATIONS = ("Summary", "Invocations")
"""The section and metric that tell how many launches a summary row covers."""
EXTREMES = {"Minimum": " (minimum)", "Maximum": " (maximum)"}
"""Columns of a summary, and the suffixes of their metrics; the mean has none."""
_DIMENSIONAL = re.compile(
    r"^(?!.*pct_of_peak|.*\.pct$|launch__(grid|block|cluster)_size|device__attribute_(warp|max_)).*"
    r"(time|duration|bytes|per_second|frequency|shared_mem|size)"
)
"""Metrics whose values ncu scales, so that they say nothing without their unit."""
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
    return schema.filled(schema.DEVICE, pl.DataFrame(columns))


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
    if not table.units:
        unknown = np.array([_DIMENSIONAL.search(table.header[place]) is not None for place in places], np.bool_)
        factors[unknown] = np.nan
        if unknown.any():
            tally.missing("units row: times, sizes and rates are unknown", int(unknown.sum()))
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
            "section": section,
            "metric": rule,
            "unit": _texts(table, "Estimated Speedup Type").str.strip_chars().replace("", None),
            "value": speedup,
            "text": _texts(table, "Rule Description"),
        }
    )
    said = said.with_columns(pl.col("kind").replace_strict(RULES, default="inf"))
    said = said.filter((rule != "") & (metric == ""))
    return pl.concat([measured, schema.filled(schema.COUNTERS, said)])


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
        if (names := ranges(record[place] if place < len(record) else ""))
    }
    rows = pl.DataFrame(
        {
            "kind": ["metric"] * len(found),
            "device_row": list(found),
            "section": [NVTX_SECTION] * len(found),
            "metric": [kind] * len(found),
            "text": list(found.values()),
        },
        schema_overrides={"kind": schema.CounterKind, "text": pl.String},
    )
    return schema.filled(schema.COUNTERS, rows)


def _units(spelled: list[str]) -> tuple[pl.Series, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """The base unit of each, and the factor for its value."""
    found = [base_unit(unit) for unit in spelled]
    return pl.Series([unit for unit, _ in found], dtype=pl.String), np.array(
        [factor for _, factor in found], np.float64
    )


def _times(value: pl.Series, factors: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> pl.Series:
    """The values in base units, without the rounding error of multiplying decimals."""
    factor = pl.Series(factors)
    exact: pl.Series = (value * factor).round_sig_figs(15).fill_nan(None)
    return pl.select(pl.when(factor == 1).then(value).otherwise(exact)).to_series()


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
