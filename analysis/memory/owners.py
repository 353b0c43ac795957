"""Who an allocation belongs to: the call stack, operator, module or annotation around it."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from tracetui.analysis.attribution.calltree import NONE, parents_of, row_ids
from tracetui.analysis.attribution.module_tree import module_tree
from tracetui.analysis.base.own_code import LIBRARY
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.nesting import latest_open, nearest

NOT_ATTRIBUTED = "(not attributed)"
EARLIER = "(allocated before the recording)"
NO_STACK = "(no stack recorded)"
OWNERS = ("name", "own", "library", "stack")
_SOURCE = re.compile(r"(?:(?P<file>.+):[1-9]\d* .*|(?P<profiled>.+\.py)\(\d+\): .*)")
"""``train.py:12 step`` of a snapshot; ``train.py(12): step`` of one made from a profile."""
_COMPILED = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".pyx", ".so")
_OPERATOR = re.compile(r"at::_ops::(\w+)::")
_NODE = re.compile(r"autograd::generated::(\w+)::apply\(")
_MACHINERY = re.compile(r"unwind::|CapturedTraceback|gather_with_cpp|CachingAllocator|^c10::|at::detail::|^at::empty")


def owners(trace: Trace, rows: Ints, by: str) -> pl.DataFrame:
    """The owner of each of some `schema.MEMORY` rows: name, and of a stack its own and library frames.

    For what was allocated before the recording, only who gave it back is known, so it has no owner (`EARLIER`).

    Args:
        trace: whose rows they are.
        rows: row numbers.
        by: ``stack``; ``operator``: the innermost one around; ``module``: the path of the innermost nn.Module call
            around that operator, or around the forward operator of a backward one; ``range``: the innermost annotation.
    """
    actions = trace.memory["action"].gather(rows)
    frees = actions.is_in(["free", "free_requested"])
    if by == "stack":
        texts = trace.memory["stack"].gather(rows).cast(pl.String)
        # a block that was allocated while stacks were recorded has a stack
        recorded = trace.memory["stack"].null_count() < trace.memory.height
        earlier = frees | (actions == "block") & texts.is_null() if recorded else frees
        return _stacks(pl.select(pl.when(~frees).then(texts)).to_series(), earlier)
    if by == "range":
        names = _ranges(trace, rows)
    elif by == "module":
        names = _modules(trace, rows)
    else:
        names = _operators(trace, rows)
    empty = pl.lit(None, dtype=pl.String)
    named = pl.select(pl.when(frees).then(pl.lit(EARLIER)).otherwise(names.fill_null(NOT_ATTRIBUTED)).alias("name"))
    return named.select("name", own=empty, library=empty, stack=empty)


def _operators(trace: Trace, rows: Ints) -> pl.Series:
    operator = trace.memory["operator"].gather(rows)
    names: pl.Series = trace.host["name"].gather(operator).cast(pl.String)
    return names


def _modules(trace: Trace, rows: Ints) -> pl.Series:
    host = trace.host
    tree = module_tree(trace)
    operator = row_ids(trace.memory["operator"].gather(rows))
    if not tree.paths:
        return pl.Series([None] * operator.size, dtype=pl.String)
    path = tree.path_of(_module_around(host, operator))
    forward = row_ids(host["forward"])
    backward = _first_above(host, operator, forward >= 0)
    of_forward = np.where(backward >= 0, forward[np.maximum(backward, 0)], NONE)
    missing = path < 0
    path = np.where(missing, tree.path_of(_module_around(host, of_forward)), path)
    paths = pl.Series([*tree.paths, None], dtype=pl.String)
    names = paths.gather(np.where(path >= 0, path, len(tree.paths)))
    told_apart = pl.Series(missing & (path >= 0))
    return pl.select(pl.when(told_apart).then(names + " (backward)").otherwise(names)).to_series()


def _module_around(host: pl.DataFrame, rows: Ints) -> Ints:
    return _first_above(host, rows, (host["kind"] == "module").to_numpy())


def _first_above(host: pl.DataFrame, rows: Ints, wanted: Bools) -> Ints:
    """The row itself or its nearest ancestor that is wanted, or -1."""
    return nearest(parents_of(host), wanted, np.where(rows >= 0, rows, NONE))


def _ranges(trace: Trace, rows: Ints) -> pl.Series:
    """The innermost annotation around each time, whatever thread it is on: a snapshot does not tell threads."""
    times = trace.memory["time"].gather(rows)
    ranges = trace.host.filter(pl.col("kind") == "annotation").select("start", "duration", "name")
    start, duration = ranges["start"].to_numpy(), ranges["duration"].to_numpy()
    known = np.where(times.is_null(), NONE, 0)
    row = latest_open(np.zeros(start.size, np.int64), start, duration, known, times.fill_null(0).to_numpy())
    names: pl.Series = ranges["name"].gather(pl.Series(row).replace(NONE, None)).cast(pl.String)
    return names


def _stacks(texts: pl.Series, earlier: pl.Series) -> pl.DataFrame:
    texts = texts.alias("stack")
    distinct = texts.unique()
    frames = [(text, *own_and_library(text), compiled(text)) for text in distinct.to_list() if text is not None]
    layout = dict.fromkeys(("stack", "own", "library", "compiled"), pl.String)
    stacks = pl.DataFrame(frames, schema=layout, orient="row")
    frame = texts.to_frame().join(stacks, on="stack", how="left", maintain_order="left")
    name = pl.coalesce("own", "library", "compiled", pl.lit(NO_STACK))
    name = pl.when(earlier).then(pl.lit(EARLIER)).otherwise(name)
    return frame.select(name.alias("name"), "own", "library", "stack")


def own_and_library(stack: str) -> tuple[str | None, str | None]:
    """The innermost Python frame of the program's own code and that of a library, null where there is none.

    Library is what is installed (site-packages), Python's own, or torch wherever it stands.
    """
    own = library = None
    for frame in stack.split(";"):
        match = _SOURCE.fullmatch(frame)
        if match is None:
            continue
        file = match["file"] or match["profiled"]
        if file.endswith(_COMPILED):
            continue
        if LIBRARY.search(file):
            library = library or frame
        else:
            own = frame
            break
    return own, library


def compiled(stack: str) -> str:
    """What tells a stack without Python frames: ``mul_Tensor in SoftmaxBackward0``, operator and autograd node.

    Without either, it is the first frame that belongs neither to the recorder nor to the allocator.
    """
    operator, node = _OPERATOR.search(stack), _NODE.search(stack)
    if operator and node:
        return f"{operator[1]} in {node[1]}"
    if operator or node:
        return (operator or node)[1]  # type: ignore[index]
    frames = stack.split(";")
    return next((frame for frame in frames if not _MACHINERY.search(frame)), frames[0])
