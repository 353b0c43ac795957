"""FLOPs, DRAM traffic, precision and parts of rates of profiled launches, from counters; null where not collected."""

from __future__ import annotations

import re

import polars as pl

from tracetui.analysis.base.names import matching
from tracetui.analysis.base.number_format import format_percent
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.counters.counters import launch_counters
from tracetui.analysis.roofline.peaks import SM_CLOCK, tensor_precision
from tracetui.parsers import Trace
from tracetui.parsers.names import kernel_names
from tracetui.parsers.names.kernel_types import operand_type

PARTS = {
    "active_cycles": ("sm__cycles_active.avg", "SM Active Cycles"),
    "l2_sectors": ("lts__t_sectors.sum",),
    "load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
}
"""A count of a launch by its names, the preferred one first; the second is that of the details page."""
_L1 = re.compile(r"l1tex__t_sectors_pipe_(lsu|tex)_mem_(global|local|surface|texture)(_op_[a-z]+)?\.sum")
"""Together these are the sectors that L1's hit rate is a share of; ncu prints no sum of them."""
COLUMNS = (*PARTS, "l1_sectors")


def launch_parts(trace: Trace) -> pl.DataFrame:
    """One row per profiled launch: ``device_row`` and `COLUMNS`; null where it was not counted.

    ``l1_sectors`` is known where loads and stores of global memory were counted, which nearly all of them are.
    """
    counted = trace.counters.filter((pl.col("kind") == "metric") & pl.col("value").is_not_null())
    wanted = {name: column for column, names in PARTS.items() for name in names}
    chosen = counted.filter(
        pl.Series(matching(counted["metric"], lambda name: name in wanted or _L1.fullmatch(name) is not None))
    ).with_columns(pl.col("metric").cast(pl.String))
    value, metric = pl.col("value"), pl.col("metric")
    needed = [PARTS["load_sectors"][0], PARTS["store_sectors"][0]]
    measured = chosen.unique(["device_row", "metric"], keep="first", maintain_order=True).group_by("device_row").agg(
        *(
            pl.coalesce(*(value.filter(metric == name).first() for name in names)).alias(column)
            for column, names in PARTS.items()
        ),
        l1_sectors=pl.when(pl.all_horizontal((metric == name).any() for name in needed)).then(
            value.filter(metric.str.contains(f"^{_L1.pattern}$")).sum()
        ),
    )  # fmt: skip
    rows = pl.DataFrame({"device_row": pl.int_range(trace.device.height, dtype=pl.UInt32, eager=True)})
    return rows.join(measured, on="device_row", how="left", maintain_order="left")


OPERATIONS = {"add": 1, "mul": 1, "fma": 2}
PRECISIONS = {"fp64": ("d", 1), "fp32": ("f", 1), "fp16": ("h", 2)}
"""The letter in the metric's name, and on how many numbers an instruction works."""
SECTOR_BYTES = 32
L2_MISSES = "lts__t_sectors_lookup_miss.sum"
_PLAIN = re.compile(
    r"(?:smsp|sm)__sass_thread_inst_executed_op_(?P<letter>[dfh])(?P<op>add|mul|fma)_pred_on\.sum"
    r"(?P<rate>\.per_cycle_elapsed|\.per_second)?"
)
_TENSOR = re.compile(r"sm__ops_path_tensor_op_\w+?_src_(?P<type>[a-z]+\d+|e\dm\d)(?:_\w+)?\.sum(?P<rate>\.per_second)?")


@kept
def launch_flops(trace: Trace) -> pl.DataFrame:
    """One row per launch: its ids, ``duration_ns``, ``flops`` by precision, ``bytes``, ``bound``, ``unknown``.

    ``flops`` is a list of (precision, FLOPs) or null where no counter of them was collected; ``bytes`` are DRAM's or,
    where these were not collected, those that missed L2. ``unknown`` names what is missing; FLOPs then include only
    what is known. ``bound`` is Nsight Compute's class.
    """
    launches = launch_counters(trace).select(
        "device_row", "name", "short_name", "grid", "block", "duration_ns", "launches", "dram_bytes", "tensor_cores",
        "sm_percent", "memory_percent", "bound",
    )  # fmt: skip
    counted = _counted(trace)
    rows = []
    for row in launches.iter_rows(named=True):
        mine = counted.get(row["device_row"], {})
        flops, unknown = _flops(mine, row["duration_ns"], row["tensor_cores"])
        moved = row["dram_bytes"]
        if moved is None and L2_MISSES in mine:
            moved = mine[L2_MISSES] * SECTOR_BYTES
            unknown.append("DRAM bytes not collected: L2 misses × 32 byte instead")
        elif moved is None:
            unknown.append("DRAM bytes not collected")
        rows.append(
            {
                **{name: row[name] for name in ("device_row", "name", "short_name", "grid", "block", "duration_ns")},
                "launches": row["launches"],
                "flops": None if flops is None else [{"precision": p, "flops": f} for p, f in flops.items()],
                "bytes": moved,
                "bound": row["bound"],
                "sm_percent": row["sm_percent"],
                "memory_percent": row["memory_percent"],
                "unknown": unknown,
            }
        )
    schema = {
        "device_row": pl.UInt32(), "name": pl.String(), "short_name": pl.String(), "grid": pl.Array(pl.Int32, 3),
        "block": pl.Array(pl.Int32, 3), "duration_ns": pl.Float64(), "launches": pl.UInt32(),
        "flops": pl.List(pl.Struct({"precision": pl.String(), "flops": pl.Float64()})), "bytes": pl.Float64(),
        "bound": pl.String(), "sm_percent": pl.Float64(), "memory_percent": pl.Float64(),
        "unknown": pl.List(pl.String()),
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def counts_flops(trace: Trace) -> bool:
    """Whether any counter of FLOPs was collected."""
    names = trace.counters["metric"].unique().cast(pl.String).drop_nulls().to_list()
    return any(_PLAIN.fullmatch(name) or _TENSOR.fullmatch(name) for name in names)


def _counted(trace: Trace) -> dict[int, dict[str, float]]:
    """The metrics that FLOPs are made of, per launch."""
    metrics = trace.counters.filter((pl.col("kind") == "metric") & pl.col("value").is_not_null())
    names = metrics["metric"].unique().cast(pl.String).drop_nulls().to_list()
    wanted = [name for name in names if _PLAIN.fullmatch(name) or _TENSOR.fullmatch(name)]
    wanted += [name for name in (*SM_CLOCK, L2_MISSES) if name in names]
    counts: dict[int, dict[str, float]] = {}
    chosen = metrics.filter(pl.Series(matching(metrics["metric"], frozenset(wanted).__contains__)))
    for row, metric, value in chosen.select("device_row", pl.col("metric").cast(pl.String), "value").iter_rows():
        counts.setdefault(row, {}).setdefault(metric, value)
    return counts


def _flops(
    mine: dict[str, float], duration_ns: float | None, tensor_cores: bool | None
) -> tuple[dict[str, float] | None, list[str]]:
    """FLOPs by precision, and which of them are not known."""
    clock = next((mine[name] for name in SM_CLOCK if name in mine), None)
    seconds = duration_ns / 1e9 if duration_ns else None
    counts: dict[tuple[str, str], float] = {}
    tensor: dict[str, float] = {}
    tensor_known = False
    for name, value in mine.items():
        if (match := _PLAIN.fullmatch(name)) is not None:
            total = _total(value, match["rate"], clock, seconds)
            if total is not None:
                counts.setdefault((match["letter"], match["op"]), total)
        elif (match := _TENSOR.fullmatch(name)) is not None:
            total = _total(value, match["rate"], clock, seconds)
            if match["rate"] and name.removesuffix(match["rate"]) in mine:
                continue
            if total is not None:
                tensor_known = True
                if total:
                    kind = tensor_precision(match["type"])
                    tensor[kind] = tensor.get(kind, 0.0) + total
    flops: dict[str, float] = {}
    for precision, (letter, numbers) in PRECISIONS.items():
        parts = [weight * counts[letter, op] for op, weight in OPERATIONS.items() if (letter, op) in counts]
        if parts:
            flops[precision] = numbers * sum(parts)
    unknown = []
    absent = [op for op in OPERATIONS if ("f", op) not in counts]
    if counts and absent:
        unknown.append(f"fp32 {' and '.join(absent)} not collected: FLOPs are at least these")
    if not counts:
        unknown.append("FLOPs not collected")
    if tensor_known:
        flops |= {kind: total for kind, total in tensor.items() if kind.startswith(("fp", "bf", "tf"))}
    elif tensor_cores:
        return None, [*unknown, "tensor FLOPs not collected"]
    elif tensor_cores is None:
        unknown.append("whether tensor cores were used was not collected")
    return (flops if counts or tensor_known else None), unknown


def _total(value: float, rate: str | None, clock: float | None, seconds: float | None) -> float | None:
    """A count, taken from the counter itself, or computed from a rate per cycle or per second."""
    if not rate:
        return value
    if seconds is None:
        return None
    if rate == ".per_second":
        return value * seconds
    return value * clock * seconds if clock else None


MAIN_PERCENT = 90.0
"""A precision with at least this share of the time is the report's; below it, several are named."""


@kept
def matrix_time(trace: Trace) -> dict[str | None, float]:
    """Time of the matrix work by precision, ns, the most first; that of which nothing tells is under None.

    Most of a launch's FLOPs tell where all were counted; else the types in the kernel's name.
    """
    launches = launch_counters(trace).select("name", "duration_ns", "launches", "tensor_cores")
    flops = launch_flops(trace).select("flops", "unknown").rows() if counts_flops(trace) else []
    time: dict[str | None, float] = {}
    for number, (name, duration, many, tensor) in enumerate(launches.iter_rows()):
        if not kernel_names.is_product(name):
            continue
        told = _of_flops(*flops[number], tensor=tensor) if flops else None
        precision = told or operand_type(name)
        time[precision] = time.get(precision, 0.0) + (duration or 0.0) * many
    return dict(sorted(time.items(), key=lambda item: -item[1]))


def precision_words(trace: Trace) -> str | None:
    """``fp32``, or ``fp32 70 %, bf16 30 %`` of the matrix time; None where nothing tells."""
    time = {name: ns for name, ns in matrix_time(trace).items() if name is not None}
    total = sum(time.values())
    if not total:
        return next(iter(time), None)
    first, most = next(iter(time.items()))
    if 100 * most / total >= MAIN_PERCENT:
        return first
    return ", ".join(f"{name} {format_percent(100 * ns / total)}" for name, ns in time.items())


def _of_flops(flops: list[dict[str, str | float]] | None, unknown: list[str], *, tensor: bool | None) -> str | None:
    """The precision of most FLOPs; None where a part was not counted, which may be most of them."""
    if not flops or (tensor is not False and any("DRAM" not in what for what in unknown)):
        return None
    most = max(flops, key=lambda part: float(part["flops"]))
    return str(most["precision"]).removesuffix("_tensor") if most["flops"] else None


def launch_table(trace: Trace) -> pl.DataFrame:
    """A report's launches with their rates and what these are made of: `launch_counters`, `launch_parts`, ``flops``."""
    table = launch_counters(trace).drop("rules", "missing").hstack(launch_parts(trace).drop("device_row"))
    return table.with_columns(
        _launch_flops(trace), one=pl.lit(1.0), tensor_cores_percent=pl.col("tensor_cores").cast(pl.Float64) * 100
    )


def _launch_flops(trace: Trace) -> pl.Series:
    """FLOPs of each launch; null where a part of them was not counted."""
    if not counts_flops(trace):
        return pl.Series("flops", [None] * trace.device.height, pl.Float64)
    counted = launch_flops(trace).select("flops", "unknown").iter_rows()
    totals = [
        None if flops is None or any("DRAM" not in what for what in unknown) else sum(part["flops"] for part in flops)
        for flops, unknown in counted
    ]
    return pl.Series("flops", totals, pl.Float64)
