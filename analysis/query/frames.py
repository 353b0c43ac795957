"""The frames and tables that a query may name: each column's type, unit and meaning."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

import polars as pl

from tracetui.analysis.tables.registry import OF_RUNS, SECTIONS
from tracetui.analysis.tables.table import UNITS, Field, Table
from tracetui.parsers import schema

NS, ROW = "ns", "row of "


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """One column that a query may name."""

    name: str
    type: str
    """As DuckDB calls it, in lower case."""
    unit: str
    """``ns``, ``µs``, ``bytes``, ``%``, ``row of host``, … ; empty where it has none."""
    about: str


@dataclass(frozen=True, slots=True)
class QueryFrame:
    """One frame or table that a query may name."""

    name: str
    about: str
    columns: tuple[QueryColumn, ...]
    section: str = ""
    """The report's section whose rows it has; empty for a frame of the recording."""


ABOUT = {
    "steps": "one iteration a row, ordered by start",
    "host": "one event of the host a row (operators, modules, Python functions, ranges, API calls), by thread; a "
    "parent precedes its children",
    "device": "one GPU activity a row (kernels, copies, fills), ordered by start",
    "memory": "one event of an allocator a row, ordered by time",
    "counters": "one metric or rule of one profiled launch a row, or one sample of a counter",
    "collectives": "one collective call a row",
}
"""The six frames of a recording."""
JOINS = (
    "kernels.operator = operators.name",
    "module_kernels.path = modules.path",
    "kernels.name = module_kernels.name",
    "device.operator = host.row",
    "device.launch = host.row",
    "kernels.name = device.name",
)
"""What rows of two tables have in common, where people look for it; `joins` has what else there is."""
_RECORDED: dict[str, dict[str, tuple[str, str]]] = {
    "steps": {
        "index": ("", "number of the step: N of ProfilerStep#N"),
        "name": ("", "name of the range that is the step"),
        "start": (NS, "when it began, on the recording's own clock"),
        "duration": (NS, "how long it took"),
    },
    "host": {
        "kind": ("", f"one of {', '.join(schema.HOST_KINDS)}"),
        "name": ("", "what ran: aten::mm, cudaLaunchKernel, …"),
        "start": (NS, "when it began"),
        "duration": (NS, "how long it took, with what it called; cut at its parent's end"),
        "process": ("", "process id"),
        "thread": ("", "thread id"),
        "parent": (f"{ROW}host", "innermost event around it on its thread: of a call a call, of a range a range"),
        "depth": ("", "number of events around it"),
        "correlation": ("", "number that an API call shares with the GPU work it launched"),
        "external_id": ("", "number that the profiler gave the operator"),
        "sequence": ("", "autograd's sequence number"),
        "forward": (f"{ROW}host", "of a backward operator: the forward operator it belongs to"),
        "module_id": ("", "of a module: which instance of its class"),
        "input_shapes": ("", "shapes of an operator's inputs, as JSON text"),
        "input_types": ("", "types of an operator's inputs, as JSON text"),
        "concrete_inputs": ("", "values of inputs that are no tensors, of attention and sends, as JSON text"),
        "stack": ("", "Python frames joined by ';', innermost first"),
        "kernel": ("", "of a launch: what it launches, where the call says so itself (ROCm's)"),
        "kernel_file": ("", "of an operator that Inductor made: the file that it wrote the kernel to"),
        "domain": ("", "NVTX domain of a range, empty for the default one"),
        "style": ("", f"of an NVTX range: {', '.join(schema.RANGE_STYLES)}"),
        "offset": ("bytes", "where the event begins in the uncompressed file"),
    },
    "device": {
        "kind": ("", f"one of {', '.join(schema.DEVICE_KINDS)}"),
        "name": ("", "kernel function, or operation of a copy or fill"),
        "start": (NS, "when it began; null where the tool gives durations only"),
        "duration": (NS, "how long it took"),
        "process": ("", "process of the operating system, where the source says"),
        "device": ("", "number of the GPU"),
        "stream": ("", "stream it ran on"),
        "context": ("", "CUDA context"),
        "correlation": ("", "number that it shares with the API call that launched it"),
        "external_id": ("", "number of the operator that launched it"),
        "launch": (f"{ROW}host", "API call that launched it"),
        "operator": (f"{ROW}host", "innermost operator around the launch"),
        "module": (f"{ROW}host", "innermost module call around the launch"),
        "forward_module": (f"{ROW}host", "of a backward kernel: the module call whose backward pass it computes"),
        "range": (f"{ROW}host", "innermost range around the launch"),
        "step": (f"{ROW}steps", "step whose host time holds the launch"),
        "grid": ("blocks", "blocks of the launch in x, y, z"),
        "block": ("threads", "threads of a block in x, y, z"),
        "registers": ("", "registers per thread"),
        "shared_memory": ("bytes", "shared memory per block, static and dynamic"),
        "occupancy_percent": ("%", "occupancy as the profiler estimated it"),
        "blocks_per_sm": ("", "blocks per multiprocessor"),
        "bytes": ("bytes", "bytes that a copy or fill moved"),
        "memory_kinds": ("", "of a copy 'Pageable -> Device', of a fill 'Device'"),
        "graph_node": ("", "node of the CUDA graph that launched it"),
        "operation": ("", "of a compiled program: the operation it computes"),
        "scope": ("", "of a compiled program: its name and the operation's scopes, joined by '/'"),
        "offset": ("bytes", "where the event begins in the uncompressed file"),
    },
    "memory": {
        "action": ("", f"one of {', '.join(schema.MEMORY_ACTIONS)}"),
        "time": (NS, "when; null where the source only orders its events"),
        "process": ("", "process id"),
        "thread": ("", "thread id"),
        "device_type": ("", "0 CPU, 1 CUDA"),
        "device": ("", "number of the device"),
        "address": ("", "address of the block"),
        "bytes": ("bytes", "size, negative when freed"),
        "allocated": ("bytes", "what the allocator had handed out after it"),
        "reserved": ("bytes", "what the allocator held after it"),
        "operator": (f"{ROW}host", "innermost operator around it"),
        "stream": ("", "stream of the block"),
        "segment": ("", "address of the segment that holds the block"),
        "requested": ("bytes", "what the program asked for, before rounding"),
        "stack": ("", "Python frames joined by ';', innermost first"),
    },
    "counters": {
        "kind": ("", f"one of {', '.join(schema.COUNTER_KINDS)}"),
        "device_row": (f"{ROW}device", "the profiled launch"),
        "time": (NS, "when a sample was taken"),
        "section": ("", "section of the tool's report"),
        "metric": ("", "metric as the tool names it; of a rule its name"),
        "unit": ("", "unit of the value, without prefixes"),
        "value": ("as unit says", "the value; of a rule the estimated speed-up, %"),
        "text": ("", "a value that is no number, or a rule's advice"),
    },
    "collectives": {
        "device": (f"{ROW}device", "its kernel; null where none is recorded or others share it"),
        "host": (f"{ROW}host", "event that describes it"),
        "operator": (f"{ROW}host", "on CPUs: the operator c10d::… that it belongs to"),
        "part_of": (f"{ROW}device", "of one of several coalesced operations: the kernel that does them all"),
        "kind": ("", "all_reduce, all_gather, …"),
        "name": ("", "as the source spells it"),
        "group": ("", "name of the process group"),
        "group_description": ("", "what the program calls the group"),
        "group_ranks": ("", "its ranks, as JSON text"),
        "group_size": ("ranks", "how many ranks the group has"),
        "seq": ("", "number within its group"),
        "bytes_in": ("bytes", "what each rank gives"),
        "bytes_out": ("bytes", "what each rank gets"),
        "element_type": ("", "fp32, bf16, …"),
        "in_splits": ("", "elements for each rank as JSON text; null where all get the same"),
        "out_splits": ("", "elements from each rank as JSON text"),
        "peer": ("", "of a send or receive: the other rank"),
        "coalesced": ("", "whether it is a kernel for several operations, or one of them"),
        "source": ("", f"what describes it: {', '.join(schema.COLLECTIVE_SOURCES)}"),
    },
}
SCHEMAS = {
    "steps": schema.STEPS,
    "host": schema.HOST,
    "device": schema.DEVICE,
    "memory": schema.MEMORY,
    "counters": schema.COUNTERS,
    "collectives": schema.COLLECTIVES,
}
"""The six frames by name."""
_TYPES = {
    "Int64": "bigint",
    "Int32": "integer",
    "Int16": "smallint",
    "UInt32": "uinteger",
    "Float64": "double",
    "Boolean": "boolean",
    "Array": "integer[]",
}
"""DuckDB's types by those of Polars; all others are text."""
OF_JSON = {
    "text": "varchar",
    "flag": "boolean",
    "whole": "bigint",
    "real": "double",
    "number": "double",
    "words": "varchar[]",
    "whole list": "bigint[]",
}
"""DuckDB's types by those of a table's columns (`Field.json_type`)."""
LEFT_OUT = frozenset({"kernel_groups", "range_tree_kernels", "counters", "collectives", "configurations"})
"""Sections that are no table of a query: they go by an option, or a frame has their name."""


@cache
def frames() -> dict[str, QueryFrame]:
    """Every frame and table by its name: the frames of a recording, then the report's tables."""
    found = {name: QueryFrame(name, about, _recorded(name)) for name, about in ABOUT.items()}
    for section, table in SECTIONS.items():
        if section not in LEFT_OUT:
            found[section] = QueryFrame(section, _about(section, table), tuple(map(_column, plain(table))), section)
    return found


def joins(named: Collection[str]) -> list[str]:
    """``device.launch = host.row``: what leads from one of two tables to the other; of one table, to any."""
    rows = [
        f"{frame.name}.{column.name} = {column.unit.removeprefix(ROW)}.row"
        for frame in frames().values()
        for column in frame.columns
        if column.unit.startswith(ROW) and column.name != "row"
    ]
    sides = {join: {side.partition(".")[0] for side in join.split(" = ")} for join in dict.fromkeys((*JOINS, *rows))}
    if len(named) > 1:
        return [join for join, of in sides.items() if len(of) > 1 and of.issubset(named)]
    return [join for join, of in sides.items() if len(of) > 1 and not of.isdisjoint(named)]


def plain(table: Table) -> tuple[Field, ...]:
    """The columns of a table that a frame can hold: those of its CSV."""
    return tuple(field for field in table.data_fields if not field.nested)


def _recorded(name: str) -> tuple[QueryColumn, ...]:
    row = QueryColumn(
        "row", "bigint", f"{ROW}{name}", "number of the row, from 0: what columns that name a row refer to"
    )
    said = _RECORDED[name]
    return (
        row,
        *(QueryColumn(column, _type(dtype), *said[column]) for column, dtype in SCHEMAS[name].items()),
    )


def _type(dtype: pl.DataType) -> str:
    return _TYPES.get(dtype.base_type().__name__, "varchar")


def _column(field: Field) -> QueryColumn:
    about = field.about.replace("`", "")
    return QueryColumn(field.json_key, OF_JSON[field.json_type], UNITS.get(field.kind, ""), about)


def _about(section: str, table: Table) -> str:
    of = "the run" if section in OF_RUNS else "one recording"
    return f"the report's table of {table.noun}, of {of}"
