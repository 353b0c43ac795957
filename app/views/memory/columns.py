"""The columns of the Memory tab's tables, and what an empty one says."""

from __future__ import annotations

from tracetui.app.tables.columns import Column

_STACK = Column("stack", "Stack", width=30, priority=9, hidden=True, about="call stack, innermost frame first")
_SIZES = (
    Column("bytes", "Bytes", "bytes", width=9, priority=0, main=True, about="held at the peak"),
    Column("percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="of all allocated at the peak"),
    Column("allocations", "Allocs", "count", width=6, priority=1, main=True, about="allocations it held"),
    Column("largest", "Largest", "bytes", width=9, priority=3, about="the largest of them"),
)
_TITLES = {
    "stack": ("Own code", "innermost frame of the program's own code in the stack that allocated"),
    "operator": ("Operator", "innermost operator around the allocation"),
    "module": ("Module", "path of the nn.Module call around that operator, or around its forward operator"),
    "range": ("Range", "innermost annotation at that time"),
}


def _name(by: str) -> Column:
    title, about = _TITLES[by]
    return Column("name", title, width=24, priority=0, flex=True, tail=by in ("stack", "module"), about=about)


_LIBRARY = Column(
    "library", "Library", width=18, priority=1, flex=True, tail=True, about="innermost frame of a library's Python code"
)
HOLDERS = {by: (_name(by), *_SIZES, *((_LIBRARY, _STACK) if by == "stack" else ())) for by in _TITLES}
LONG_LIVED = {
    by: (
        _name(by),
        Column("bytes", "Bytes", "bytes", width=9, priority=0, main=True, about="made in a step, there when it ended"),
        Column("kept_bytes", "Kept", "bytes", width=9, priority=1, about="of them never given back in the recording"),
        Column("allocations", "Allocs", "count", width=6, priority=1, main=True, about="how many"),
        Column("steps", "Steps", "count", width=5, priority=2, about="steps in which such allocations were made"),
        Column("largest", "Largest", "bytes", width=9, priority=3, about="the largest of them"),
        *((_LIBRARY, _STACK) if by == "stack" else ()),
    )
    for by in _TITLES
}
ALLOCATIONS = (
    Column("bytes", "Bytes", "bytes", width=9, priority=0, main=True, about="its size, as it was asked for"),
    Column("at_ns", "At", "time", width=9, priority=0, about="time since the recording began; none: before it"),
    Column("life_ns", "Lived", "time", width=9, priority=1, main=True, about="until it was given back"),
    Column("range", "Range", width=14, priority=2, flex=True, about="innermost annotation at that time"),
    Column("operator", "Operator", width=14, priority=3, flex=True, about="innermost operator around it"),
    Column("module", "Module", width=14, priority=4, flex=True, tail=True, about="nn.Module call around it"),
    Column("address", "Address", width=14, priority=2, about="where it was"),
    Column("stream", "Stream", "number", width=6, priority=6, about="CUDA stream it was made for"),
    _STACK,
)
STEPS = (
    Column("index", "Step", "count", width=5, priority=0, about="number of the step"),
    Column("name", "Name", width=16, priority=1, flex=True, about="its annotation"),
    Column("allocated_start", "At start", "bytes", width=9, priority=0, about="allocated when it begins"),
    Column("allocated_end", "At end", "bytes", width=9, priority=0, about="allocated when it ends"),
    Column("growth_bytes", "Growth", "bytes", width=9, priority=0, main=True, about="end less start"),
    Column("peak_bytes", "Peak", "bytes", width=9, priority=1, about="the most in it"),
)
SEGMENTS = (
    Column("bytes", "Size", "bytes", width=9, priority=0, main=True, about="what the driver gave"),
    Column("allocated", "In use", "bytes", width=9, priority=0, about="in blocks in use"),
    Column("used_percent", "%", "percent", width=5, priority=0, bar=True, main=True, about="in use, of its size"),
    Column("free", "Free", "bytes", width=9, priority=1, about="in free blocks"),
    Column("largest_free", "Largest", "bytes", width=9, priority=1, about="the largest free block"),
    Column("blocks", "Blocks", "count", width=6, priority=2, main=True, about="blocks it is cut into"),
    Column("in_use", "Used", "count", width=5, priority=2, about="blocks in use"),
    Column("stream", "Stream", "number", width=6, priority=3, about="CUDA stream it serves"),
    Column("device", "GPU", "number", width=3, priority=4, about="device id"),
    Column("own", "Own code", width=16, priority=5, flex=True, tail=True, about="whose request made it, if recorded"),
    _STACK,
)
BLOCKS = (
    Column("address", "Address", width=14, priority=0, about="where it begins"),
    Column("bytes", "Size", "bytes", width=9, priority=0, main=True, about="its size"),
    Column("requested", "Requested", "bytes", width=9, priority=1, about="what was asked for"),
    Column("state", "State", width=13, priority=0, about="in use, free, or awaiting free: a stream may need it"),
    Column("own", "Own code", width=16, priority=1, flex=True, tail=True, about="who allocated it"),
    _STACK,
)
OOMS = (
    Column("at_ns", "At", "time", width=9, priority=0, about="time since the recording began"),
    Column("requested", "Asked for", "bytes", width=9, priority=0, main=True, about="what was asked for"),
    Column("device_free", "GPU free", "bytes", width=9, priority=0, about="what the device had free"),
    Column("allocated", "Allocated", "bytes", width=9, priority=1, about="in tensors then"),
    Column("reserved", "Reserved", "bytes", width=9, priority=1, about="held from the driver then"),
    Column("own", "Own code", width=16, priority=0, flex=True, tail=True, about="who asked"),
    Column("device", "GPU", "number", width=3, priority=3, about="device id"),
    _STACK,
)

NO_HISTORY = """\
No history of allocations, so neither a peak nor what was given back is known.

v goes on to the segments and blocks held at the end. To record the history:

torch.cuda.memory._record_memory_history()"""

NO_MEMORY = (
    "No memory in this recording.\n\n"
    "Record it with profile(..., profile_memory=True), or take a snapshot:\n"
    "torch.cuda.memory._record_memory_history(); ...\n"
    'torch.cuda.memory._dump_snapshot("snapshot.pickle")\n'
    "and open that file, or the folder that holds it and the trace."
)
