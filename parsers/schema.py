"""The six frames every parser fills: their columns, types and units.

All times are int64 nanoseconds on the trace's own clock. A column a source can't fill is null, never 0.
Rows of one frame refer to rows of another by position (a *row id*).

Parsers fill them from NumPy columns, in which a placeholder stands for null: the type's smallest value in signed
columns, `categories.NULL_CODE` in codes of strings, -1 in triples of sizes and in row numbers, nan in floats, and any
number without a meaning in enumerations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetui.parsers import categories
from tracetui.parsers.arrays import Bools

MAX_SIZE = 1 << 50
"""Bytes: larger than any request, even one with a mistaken shape, while sums still fit into 64 bits."""
HOST_KINDS = (
    "operator",  # a framework operator: aten::mm
    "module",  # one call of an nn.Module
    "python",  # a Python function
    "annotation",  # record_function, ProfilerStep, NVTX range
    "dataloader",  # the host waits for the next batch
    "runtime",  # CUDA runtime API call
    "driver",  # CUDA driver API call
    "overhead",  # the profiler's own work
    "os",  # operating-system call that a tracer intercepted: poll, ioctl, pthread_cond_wait
)
DEVICE_KINDS = (
    "kernel",
    "memcpy",
    "memset",
    "graph",  # a whole CUDA graph recorded as one activity
    "synchronization",
    "annotation",  # a host range projected on the device by the profiler
    "counted",  # a kernel that was run again for its counters, which are in `COUNTERS`: when and how long is not known
)

RANGE_STYLES = (
    "push_pop",  # nests with the others of its thread
    "start_end",  # may overlap others
    "cross_thread",  # a start/end range that ends on another thread than it began on
    "mark",  # an instant
)
COUNTER_KINDS = (
    "metric",  # one metric of one profiled launch
    "sample",  # a counter's value at a time
    "opt",  # a rule of Nsight Compute that sees something to gain
    "wrn",
    "inf",
    "err",
)
MEMORY_ACTIONS = (
    "alloc",
    "free",  # bytes are negative
    "free_requested",  # the program let go of it; streams may still use it
    "segment_alloc",  # the allocator took memory from the driver
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",  # no memory for a request of so many bytes; `reserved` is what the device had free
    "segment",  # end state: a segment the allocator holds, `allocated` of it in use
    "block",  # end state: a block in use
    "free_block",  # end state: a block of a held segment that is not in use
    "other",
)

COLLECTIVE_SOURCES = (
    "kernel",  # arguments of the kernel
    "operator",  # arguments of record_param_comms
    "range",  # name, shapes or payload of a range around the call
    "name",  # the name of the kernel, which tells the kind at most
)

HostKind = pl.Enum(HOST_KINDS)
RangeStyle = pl.Enum(RANGE_STYLES)
CounterKind = pl.Enum(COUNTER_KINDS)
MemoryAction = pl.Enum(MEMORY_ACTIONS)
DeviceKind = pl.Enum(DEVICE_KINDS)
CollectiveSource = pl.Enum(COLLECTIVE_SOURCES)
Name = pl.Categorical
RowId = pl.UInt32
Dim3 = pl.Array(pl.Int32, 3)

STEPS: dict[str, pl.DataType] = {
    "index": pl.Int64(),  # N of ProfilerStep#N
    "name": pl.String(),
    "start": pl.Int64(),
    "duration": pl.Int64(),
}
"""One iteration a row, ordered by start."""

SAYING = r"^c10d::(send|recv_|alltoall_base_)$|attention|attn|^aten::slice$"
"""Names of operators whose values say more than shapes: the other rank, what each gets, a causal mask, a part."""

HOST: dict[str, pl.DataType] = {
    "kind": HostKind,
    "name": Name(),
    "start": pl.Int64(),
    "duration": pl.Int64(),  # cut at the parent's end where the event outlives its parent
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "parent": RowId(),  # innermost enclosing event of the same thread
    "depth": pl.Int16(),
    "correlation": pl.Int64(),  # API calls only
    "external_id": pl.Int64(),
    "sequence": pl.Int64(),  # autograd sequence number
    "forward": RowId(),  # of a backward operator: the forward operator it belongs to
    "module_id": pl.Int64(),  # of a module: which instance of its class
    "input_shapes": Name(),  # JSON text
    "input_types": Name(),  # JSON text
    "concrete_inputs": Name(),  # JSON text: the values of inputs that are no tensors, of operators named `SAYING`
    "stack": Name(),  # frames joined by ';', innermost first
    "kernel": Name(),  # of a launch: what it launches, where the call says so itself
    "kernel_file": Name(),  # of an operator that Inductor made: the file that it wrote the kernel to
    "domain": Name(),  # of an NVTX range: its domain, "" for the default one
    "style": RangeStyle,  # of an NVTX range
    "offset": pl.Int64(),  # where the event begins in the uncompressed file
}
"""One host event a row, by thread; of a thread its calls, then its ranges, each by start, then the longer first.

So a parent precedes its children.
"""

DEVICE: dict[str, pl.DataType] = {
    "kind": DeviceKind,
    "name": Name(),
    "start": pl.Int64(),  # null where the tool gives durations only (Nsight Compute)
    "duration": pl.Int64(),
    "process": pl.Int64(),  # of the operating system, where the source says
    "device": pl.Int64(),
    "stream": pl.Int64(),
    "context": pl.Int64(),
    "correlation": pl.Int64(),
    "external_id": pl.Int64(),
    "launch": RowId(),  # host row of the API call that launched it
    "operator": RowId(),  # host row of the innermost operator around the launch
    "module": RowId(),  # host row of the innermost module call around the launch
    "forward_module": RowId(),  # of a backward kernel: the module call whose backward it computes
    "range": RowId(),  # host row of the innermost annotation around the launch
    "step": RowId(),  # row in steps whose host time holds the launch
    "grid": Dim3,
    "block": Dim3,
    "registers": pl.Int64(),  # per thread
    "shared_memory": pl.Int64(),  # bytes per block, static + dynamic
    "occupancy_percent": pl.Float64(),  # estimated by the profiler
    "blocks_per_sm": pl.Float64(),
    "bytes": pl.Int64(),  # memcpy, memset
    "memory_kinds": Name(),  # of a memcpy "Pageable -> Device", of a memset "Device"
    "graph_node": pl.Int64(),  # of what a CUDA graph launched: its node
    "operation": Name(),  # of a compiled program: the operation it computes (XLA's hlo_op)
    "scope": Name(),  # of a compiled program: its name, then the operation's name scopes, joined by '/'
    "offset": pl.Int64(),
}
"""One GPU activity a row, ordered by start."""

MEMORY: dict[str, pl.DataType] = {
    "action": MemoryAction,
    "time": pl.Int64(),  # null where the source only orders its events
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "device_type": pl.Int64(),  # 0 CPU, 1 CUDA (c10::DeviceType)
    "device": pl.Int64(),
    "address": pl.Int64(),
    "bytes": pl.Int64(),  # negative when freed
    "allocated": pl.Int64(),
    "reserved": pl.Int64(),
    "operator": RowId(),  # host row of the innermost operator around it
    "stream": pl.Int64(),
    "segment": pl.Int64(),  # address of the segment that holds the block
    "requested": pl.Int64(),  # bytes asked for, before rounding
    "stack": Name(),  # frames joined by ';', innermost first
}
"""One allocator event a row, ordered by time."""

COUNTERS: dict[str, pl.DataType] = {
    "kind": CounterKind,
    "device_row": RowId(),
    "time": pl.Int64(),
    "section": Name(),
    "metric": Name(),  # as the tool names it; of a rule its name
    "unit": Name(),  # without prefixes: ns, byte, byte/s, hz, %; of a rule "global" or "local", what its speed-up is of
    "value": pl.Float64(),  # in that unit, null where it is not a number; of a rule the estimated speed-up, percent
    "text": pl.String(),  # a value that is no number; a rule's advice
}
"""One metric or rule of one profiled launch, or one sample of a counter."""


COLLECTIVES: dict[str, pl.DataType] = {
    "device": RowId(),  # device row of its kernel; null where none is recorded, or where others share it (`part_of`)
    "host": RowId(),  # host row of what describes it: record_param_comms, a range (nccl:…, gloo:…), an operator
    "operator": RowId(),  # on CPUs: host row of the operator c10d::… that `host`, the range, belongs to
    "part_of": RowId(),  # of one of several coalesced operations: the device row of the kernel that does them all
    "kind": Name(),  # one of `names.collectives.KINDS`
    "name": Name(),  # as the source spells it: _allgather_base; of a kernel that nothing describes its name
    "group": Name(),  # the process group's name
    "group_description": Name(),
    "group_ranks": Name(),  # JSON text; PyTorch cuts long lists short with "..."
    "group_size": pl.Int64(),
    "seq": pl.Int64(),  # number within its group
    "bytes_in": pl.Int64(),
    "bytes_out": pl.Int64(),
    "element_type": Name(),  # fp32, bf16, …
    "in_splits": Name(),  # JSON text, elements for each rank; null where all get the same
    "out_splits": Name(),
    "peer": pl.Int64(),  # of a send or receive: the other rank
    "coalesced": pl.Boolean(),  # a kernel for several operations, whose sizes are theirs; or one of them
    "source": CollectiveSource,
}
"""One collective call a row: those with a kernel in its order, then the others in the order of the host's calls."""


def empty(schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """A frame of this schema without rows."""
    return pl.DataFrame(schema=schema)


def filled(schema: dict[str, pl.DataType], rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the columns of this schema, in its order; those that they lack are null."""
    return rows.select(
        pl.col(name).cast(dtype) if name in rows.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    )


def integers(values: NDArray[Any]) -> pl.Series:
    """Int64 with the smallest value of the array's type as null."""
    return _without(pl.Series(values).cast(pl.Int64), values == np.iinfo(values.dtype).min)


def row_ids(values: NDArray[Any]) -> pl.Series:
    """Row ids with -1 as null."""
    return _without(pl.Series(values.astype(np.uint32)), values < 0)


def _without(series: pl.Series, missing: Bools) -> pl.Series:
    """The series with null where a value is missing."""
    return series.set(pl.Series(missing), None) if missing.any() else series


def column(dtype: Any, values: NDArray[Any]) -> pl.Series:
    """One column of a frame."""
    if dtype == Name:
        return categories.decode(values)
    if dtype == Dim3:
        return _without(pl.Series(values, dtype=Dim3), values[:, 0] < 0)
    if isinstance(dtype, pl.Enum):
        missing = values >= len(dtype.categories)
        known = np.where(missing, values.dtype.type(0), values) if missing.any() else values
        return _without(pl.Series(known).cat.to(dtype), missing)
    if dtype == pl.Float64:
        return pl.Series(values, nan_to_null=True)
    return integers(values)


def frame(
    layout: dict[str, pl.DataType],
    columns: dict[str, NDArray[Any]],
    rows: Mapping[str, NDArray[Any]],
    **ready: pl.Series,
) -> pl.DataFrame:
    """Turns columns into a frame of this layout, releasing each as it is taken; missing columns are null."""
    if not next(iter(columns.values())).shape[0]:
        return pl.DataFrame(schema=layout)
    taken: list[pl.Series] = []
    constant: list[pl.Expr] = []
    for name, dtype in layout.items():
        if name in rows:
            taken.append(row_ids(rows[name]).alias(name))
        elif name in ready:
            taken.append(ready[name].alias(name))
        elif name not in columns:
            constant.append(pl.lit(None, dtype).alias(name))
        elif dtype == pl.Int64 and _is_constant(columns[name]):
            constant.append(pl.lit(column(dtype, columns.pop(name)[:1])[0], dtype).alias(name))
        else:
            taken.append(column(dtype, columns.pop(name)).alias(name))
    # a literal is one value however long the frame
    return pl.DataFrame(taken).with_columns(constant).select(list(layout))


def _is_constant(values: NDArray[Any]) -> bool:
    return values.size > 0 and bool((values[:1000] == values[0]).all() and (values == values[0]).all())
