"""The allocator's memory: who held the peak, what stays, steps, segments, blocks, and where memory ran out."""

from __future__ import annotations

from dataclasses import replace

from tracetui.analysis.tables.table import EVERY, Field, Table

_STACK = Field("stack", "Stack", width=30, priority=9, hidden=True, null=True,
               about="call stack, innermost frame first, joined by `;`")  # fmt: skip
_LIBRARY = Field("library", "Library", width=18, priority=1, flex=True, tail=True, null=True,
                 about="innermost frame of a library's Python code")  # fmt: skip
_BY = Field("by", screen=False, about="what the row is named by: `stack`, `range`, `operator`, `module`")
_OWN = Field("own", screen=False, null=True, about="innermost frame of the program's own code")
_LARGEST = Field(
    "largest", "Largest", "bytes", width=9, priority=3, key="largest_bytes", about="size of the largest of them"
)  # fmt: skip
_TITLES = {
    "stack": ("Own code", "innermost frame of the program's own code in the stack that allocated"),
    "operator": ("Operator", "innermost operator around the allocation"),
    "module": ("Module", "path of the nn.Module call around that operator, or around its forward operator"),
    "range": ("Range", "innermost annotation at that time"),
}
CALLERS = tuple(_TITLES)
"""What memory can be named by."""

HOLDERS = Table(
    "memory_holders",
    "Held at the peak",
    "holders",
    (
        Field("name", "Held by", width=24, priority=0, flex=True, about="who allocated it"),
        Field("bytes", "Bytes", "bytes", width=9, priority=0, main=True, about="bytes it held at the peak"),
        Field(
            "percent", "%", "percent", width=5, priority=0, bar=True, main=True, null=True,
            about="share of all bytes allocated at the peak",
        ),
        Field(
            "allocations", "Allocs", "count", width=6, priority=1, main=True, null=True,
            about="number of allocations it held then; none where only their sum is known",
        ),
        replace(_LARGEST, null=True),
        _LIBRARY,
        _STACK,
        _BY,
        _OWN,
    ),
    data=("by", "name", "bytes", "percent", "allocations", "largest", "own", "library", "stack"),
    reports=("bytes", "percent", "allocations", "name", "library"),
    base="% of the peak",
    sort=("bytes", True),
    key="name",
    drill="allocations",
    section="memory.holders",
)  # fmt: skip
LONG_LIVED = Table(
    "memory_long",
    "Long-lived memory",
    "long-lived allocations",
    (
        HOLDERS.field("name"),
        Field(
            "bytes", "Bytes", "bytes", width=9, priority=0, main=True,
            about="bytes allocated in a step and still there when it ended",
        ),
        Field(
            "kept_bytes", "Kept", "bytes", width=9, priority=1,
            about="the part of these bytes never given back in the recording",
        ),
        Field("allocations", "Allocs", "count", width=6, priority=1, main=True, about="number of such allocations"),
        Field(
            "steps", "Steps", "count", width=5, priority=2, null=True,
            about="number of steps in which they were made; none without steps",
        ),
        _LARGEST,
        _LIBRARY,
        _STACK,
        _BY,
        _OWN,
    ),
    data=("by", "name", "bytes", "kept_bytes", "allocations", "steps", "largest", "own", "library", "stack"),
    reports=("bytes", "kept_bytes", "allocations", "steps", "name"),
    sort=("bytes", True),
    key="name",
    drill="allocations",
    section="memory.long_lived",
)  # fmt: skip


def named_by(table: Table, by: str) -> Table:
    """The table for one of `CALLERS`: a library is known only for stacks."""
    title, about = _TITLES[by]
    named = table.having("name", title=title, about=about, tail=by in ("stack", "module"))
    if by == "stack":
        return named
    rest = tuple(field for field in named.fields if field.name not in ("library", "stack"))
    return replace(named, fields=rest, data=(), reports=tuple(name for name in table.reports if name != "library"))


ALLOCATIONS = Table(
    "memory_allocations",
    "Allocations",
    "allocations",
    (
        Field("bytes", "Bytes", "bytes", width=9, priority=0, main=True, about="its size, as it was asked for"),
        Field("at_ns", "At", "time", width=9, priority=0, about="time since the recording began; none: before it"),
        Field("life_ns", "Lived", "time", width=9, priority=1, main=True, about="time until it was given back"),
        Field("range", "Range", width=14, priority=2, flex=True, about="innermost annotation at that time"),
        Field("operator", "Operator", width=14, priority=3, flex=True, about="innermost operator around it"),
        Field("module", "Module", width=14, priority=4, flex=True, tail=True, about="nn.Module call around it"),
        Field("address", "Address", width=14, priority=2, about="where it was"),
        Field("stream", "Stream", "number", width=6, priority=6, about="CUDA stream it was made for"),
        _STACK,
    ),
    sort=("bytes", True),
    key="address",
)
STEPS = Table(
    "memory_steps",
    "Memory per step",
    "steps",
    (
        Field("index", "Step", "count", width=5, priority=0, about="number of the step"),
        Field("name", "Name", width=16, priority=1, flex=True, about="name of the step's annotation"),
        Field(
            "allocated_start", "At start", "bytes", width=9, priority=0, key="allocated_start_bytes", null=True,
            about="bytes allocated when it begins",
        ),
        Field(
            "allocated_end", "At end", "bytes", width=9, priority=0, key="allocated_end_bytes",
            about="bytes allocated when it ends",
        ),
        Field(
            "growth_bytes", "Growth", "bytes", width=9, priority=0, main=True, null=True,
            about="bytes at its end less those at its start",
        ),
        Field("peak_bytes", "Peak", "bytes", width=9, priority=1, about="the most bytes allocated at once in it"),
    ),
    data=EVERY,
    reports=("index", "allocated_start", "allocated_end", "growth_bytes", "peak_bytes"),
    base="allocated",
    sort=("index", False),
    key="index",
    section="memory.growth",
)  # fmt: skip
SEGMENTS = Table(
    "memory_segments",
    "Segments",
    "segments",
    (
        Field("bytes", "Size", "bytes", width=9, priority=0, main=True, about="what the driver gave"),
        Field("allocated", "In use", "bytes", width=9, priority=0, about="in blocks in use"),
        Field("used_percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="in use, of its size"),
        Field("free", "Free", "bytes", width=9, priority=1, about="in free blocks"),
        Field("largest_free", "Largest", "bytes", width=9, priority=1, about="the largest free block"),
        Field("blocks", "Blocks", "count", width=6, priority=2, main=True, about="blocks it is cut into"),
        Field("in_use", "Used", "count", width=5, priority=2, about="blocks in use"),
        Field("stream", "Stream", "number", width=6, priority=3, about="CUDA stream it serves"),
        Field("device", "GPU", "number", width=3, priority=4, about="device id"),
        Field(
            "own", "Own code", width=16, priority=5, flex=True, tail=True, about="whose request made it, if recorded"
        ),
        _STACK,
    ),
    sort=("bytes", True),
    key="address",
    drill="blocks",
)
BLOCKS = Table(
    "memory_blocks",
    "Blocks",
    "blocks",
    (
        Field("address", "Address", width=14, priority=0, about="where it begins"),
        Field("bytes", "Size", "bytes", width=9, priority=0, main=True, about="its size"),
        Field("requested", "Requested", "bytes", width=9, priority=1, about="what was asked for"),
        Field(
            "state", "State", width=13, priority=0, about="in use, free, or awaiting free: a stream may still need it"
        ),
        Field("own", "Own code", width=16, priority=1, flex=True, tail=True, about="who allocated it"),
        _STACK,
    ),
    sort=("address", False),
    key="address",
)
OUT_OF_MEMORY = Table(
    "memory_oom",
    "Out of memory",
    "requests that found no memory",
    (
        Field("at_ns", "At", "time", width=9, priority=0, null=True, about="time since the recording began"),
        Field(
            "requested", "Asked for", "bytes", width=9, priority=0, main=True, key="requested_bytes",
            about="bytes that were asked for",
        ),
        Field(
            "device_free", "GPU free", "bytes", width=9, priority=0, key="device_free_bytes", null=True,
            about="bytes that the device had free",
        ),
        Field(
            "allocated", "Allocated", "bytes", width=9, priority=1, key="allocated_bytes", null=True,
            about="bytes in tensors then",
        ),
        Field(
            "reserved", "Reserved", "bytes", width=9, priority=1, key="reserved_bytes", null=True,
            about="bytes that the allocator held from the driver then",
        ),
        Field(
            "own", "Own code", width=16, priority=0, flex=True, tail=True, null=True,
            about="innermost frame of the program's own code that asked",
        ),
        Field("device", "GPU", "number", width=3, priority=3, type="whole", about="device id"),
        _STACK,
    ),
    data=("at_ns", "device", "requested", "device_free", "allocated", "reserved", "own", "stack"),
    sort=("at_ns", False),
    key="row",
    drill="held then",
    section="memory.oom",
)  # fmt: skip
