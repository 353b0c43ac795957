"""Gives kernels of replayed CUDA and HIP graphs the operators and modules that launched them while it was captured.

A replay shows one call on the host and all kernels of the graph on the GPU. The recording of the capture, which may be
the same one, shows each launch on the host, with the operators, modules and frames around it. What was launched between
the begin and the end of one capture is a *piece*; its launches, in order, are the kernels of a replay, in order. A
replay that several pieces fit gets only what all of them agree on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.parsers import schema
from tracetui.parsers.arrays import Bools, Ints
from tracetui.parsers.names import kernel_key
from tracetui.parsers.names.kernel_makers import INDUCTOR
from tracetui.parsers.nesting import NONE, nearest
from tracetui.parsers.trace import Replays, Trace

LEAST_OF_PIECE = 0.95
"""A replay of which kernels are missing is taken for a piece if it has at least this share of it, in its order: one
public recording lacks the last kernel of each replay."""
MOST_PAIRS = 1 << 26
"""Replays times pieces; of more, the order of the pieces decides nothing."""
MOST_FRAMES = 64
NODE = "graph kernel "
"""Begins the names of ranges behind a capture that tell its kernels in order (`collectors.child.graphs`)."""
AMBIGUOUS = "(ambiguous)"
"""In place of the operator or module that pieces disagree on."""
_BEGIN, _END = "StreamBeginCapture", "StreamEndCapture"
_LAUNCH = r"^(?:cuda|cu|hip)\w*Launch\w*Kernel"
_GRAPH_LAUNCH = "GraphLaunch"
_BATCH_OF_CAPTURE = re.compile(r"capture_(\d+)_")
_BATCH_OF_STEP = re.compile(r"execute_(\d+)_context|\bbs=(\d+)")
_TAKEN = ("kind", "name", "module_id", "input_shapes", "input_types", "concrete_inputs", "stack", "kernel_file")
_OPERATOR, _MODULE = map(schema.HOST_KINDS.index, ("operator", "module"))
_TOLD = ("operator", "module")
_OF_DEVICE = ("launch", "forward_module", "range", *_TOLD)
NODES: dict[str, pl.DataType] = {key: pl.Int64() for key in ("process", "node", "thread", "time")}
"""A node of a graph, and when and by which thread it was captured."""
_NO_ROWS = np.empty(0, np.int64)


class Piece(Struct, frozen=True):
    """What one capture launched, in order."""

    of: Trace
    label: str
    """What the capture is called: the outermost range around it, or nothing."""
    kernels: tuple[str | None, ...]
    """None where nothing tells the name."""
    launches: tuple[tuple[int, ...], ...]
    """Of each, the host rows of the operators that began after the capture did and of the modules around it, the
    outermost first."""
    begin: int
    """When the capture began: what began earlier is around it."""


class _Replay(Struct, frozen=True):
    """One launch of a graph."""

    launch: int
    rows: Ints
    """Its kernels on the device, in order."""
    kernels: tuple[str, ...]
    batch: int | None
    """The batch that the range around it tells."""
    group: tuple[str, int] | None
    """The step, else the outermost range that it is in."""


def captures(trace: Trace) -> bool:
    """Whether graphs were captured in this recording."""
    return any(_BEGIN in name for name in _names(trace))


def replays(trace: Trace) -> bool:
    """Whether graphs were launched in this recording."""
    return any(_GRAPH_LAUNCH in name for name in _names(trace))


def _names(trace: Trace) -> list[str]:
    calls = trace.host.filter(pl.col("kind").is_in(["runtime", "driver"]))
    return [str(name) for name in calls["name"].unique().drop_nulls()]


def replayed_work(trace: Trace) -> pl.LazyFrame:
    """The GPU work that graphs launched: rows of ``trace.device`` with their number ``at``, and ``when`` it was."""
    calls = trace.host.lazy().with_row_index("launch").filter(pl.col("kind").is_in(["runtime", "driver"]))
    calls = calls.filter(pl.col("name").cast(pl.String).str.contains(_GRAPH_LAUNCH)).select("launch", when="start")
    return trace.device.lazy().with_row_index("at").join(calls, on="launch")


def with_captures(trace: Trace, beside: Sequence[Trace]) -> Trace:
    """The trace with what its captures, and those recorded beside it, tell of its replays; itself without any."""
    if not trace.host.height or not replays(trace):
        return trace
    recorded = [one for one in (trace, *beside) if captures(one)]
    called = {kernel_key.key(name): name for name in trace.device["name"].unique().cast(pl.String).drop_nulls()}
    pieces = [piece for one in recorded for piece in _pieces(one, called)]
    played = _replays(trace)
    if not played:
        return trace
    made, found = _Rows(trace, pieces), [0] * 4
    duration = trace.device["duration"].fill_null(0).to_numpy()
    kernels, ns, named_ns, ambiguous_ns, by_order_ns = 0, 0, 0, 0, 0
    for replay, fits in zip(played, _fitting(pieces, played), strict=True):
        spent = duration[replay.rows]
        kernels, ns = kernels + spent.size, ns + int(spent.sum())
        if fits is None:
            continue
        unsure = made.add(replay, fits)
        named_ns, ambiguous_ns = named_ns + int(spent[~unsure].sum()), ambiguous_ns + int(spent[unsure].sum())
        by_order_ns += int(spent[fits.unnamed].sum())
        told = (spent.size, int(unsure.sum()), int(fits.unnamed.sum()), int(fits.incomplete))
        found = [before + more for before, more in zip(found, told, strict=True)]
    matched, ambiguous, by_order, incomplete = found
    files = tuple(one.source.path.name for one in recorded)
    told_by = Replays(len(played), len(pieces), kernels, matched, ambiguous, by_order, incomplete, ns, named_ns,
                      ambiguous_ns, by_order_ns, files)  # fmt: skip
    return replace(made.trace(), replays=told_by)


def with_nodes(trace: Trace, nodes: pl.DataFrame) -> Trace:
    """The trace whose replayed kernels are in the ranges in which their nodes were captured.

    Args:
        trace: of a recording whose kernels have the numbers of their nodes.
        nodes: when and by which thread each was captured (`NODES`).
    """
    work = trace.device.with_row_index("at").filter((pl.col("kind") == "kernel") & pl.col("graph_node").is_not_null())
    if not nodes.height or not work.height:
        return trace
    ranges = _Ranges(trace)
    keys = [nodes[key].to_list() for key in ("process", "thread", "time")]
    around = [rows[-1] if (rows := ranges.at(*key)) else None for key in zip(*keys, strict=True)]
    known = nodes.select("process", "node", captured=pl.Series(around, dtype=schema.RowId))
    work = work.rename({"graph_node": "node"}).join(
        known.with_columns(is_known=True), on=["process", "node"], how="left", maintain_order="left"
    )
    named = work.filter(pl.col("captured").is_not_null())
    told = Replays(
        launches=work["launch"].n_unique(), pieces=(nodes["node"] // (1 << 32)).n_unique(), kernels=work.height,
        matched=int(work["is_known"].sum()), ambiguous=0, by_order=0, incomplete=0, ns=int(work["duration"].sum()),
        named_ns=int(named["duration"].sum()), ambiguous_ns=0, by_order_ns=0,
        files=(trace.source.path.name,), by="node",
    )  # fmt: skip
    placed = trace.device["range"].scatter(named["at"], named["captured"])
    return replace(trace, device=trace.device.with_columns(placed), replays=told)


def _pieces(trace: Trace, called: dict[str, str]) -> list[Piece]:
    """The captures of a recording, in order; `called` has the names of the replays' kernels by their keys."""
    calls = trace.host.with_row_index("row").filter(pl.col("kind").is_in(["runtime", "driver"]))
    calls = calls.with_columns(pl.col("name", "kernel").cast(pl.String)).sort("start")
    launching = calls.filter(pl.col("name").str.contains(_LAUNCH) | pl.col("kernel").is_not_null())
    # a call that launches may make another one that does: the outer one stands for both
    launching = launching.filter(~pl.col("parent").is_in(launching["row"].implode()).fill_null(value=False))
    bounds = calls.filter(pl.col("name").str.contains(f"{_BEGIN}|{_END}"))
    spans: list[tuple[int, int, int, int]] = []
    begun: dict[tuple[object, object], tuple[int, int]] = {}
    for name, row, process, thread, start in bounds.select("name", "row", "process", "thread", "start").iter_rows():
        if _BEGIN in name:
            begun[process, thread] = start, row
        elif (process, thread) in begun:
            begin, first = begun.pop((process, thread))
            spans.append((begin, start, first, process))
    return _between(trace, launching, sorted(spans), called) if spans else []


def _between(
    trace: Trace, launching: pl.DataFrame, spans: list[tuple[int, int, int, int]], called: dict[str, str]
) -> list[Piece]:
    """A piece for each begin and end of a capture, with the row of the first call and the process."""
    kind, names = trace.host["kind"].to_physical().to_numpy(), trace.host["name"]
    parent, starts = _parents(trace), trace.host["start"].to_numpy()
    ranges = _Ranges(trace)
    rows = launching["row"].to_numpy().astype(np.int64)
    inner = nearest(parent, kind == _OPERATOR, parent[rows])
    named = _named(trace, launching, inner)
    when, owner = launching["start"].to_numpy(), launching["process"].to_numpy()
    told = trace.host.filter((pl.col("kind") == "annotation") & pl.col("name").cast(pl.String).str.starts_with(NODE))
    told = told.sort("start").select("start", name=pl.col("name").cast(pl.String).str.strip_prefix(NODE))
    until = [*(begin for begin, *_ in spans[1:]), np.iinfo(np.int64).max]
    found = []
    for (begin, end, first, process), after in zip(spans, until, strict=True):
        at = np.arange(np.searchsorted(when, begin), np.searchsorted(when, end))
        launches = []
        for row in rows[at[owner[at] == process]].tolist():
            up, chain = int(parent[row]), list[int]()
            while up >= 0:
                if kind[up] == _MODULE or (kind[up] == _OPERATOR and starts[up] >= begin):
                    chain.append(up)
                up = int(parent[up])
            launches.append(tuple(reversed(chain)))
        outer = [str(names[one]) for one in ranges.around(first) if starts[one] < begin]
        if launches:
            kernels = tuple(named[place] for place in at[owner[at] == process].tolist())
            nodes = told.filter(pl.col("start").is_between(end, after))["name"]
            if len(nodes) == len(kernels):
                kernels = tuple(called.get(kernel_key.key(name), name) for name in nodes)
            found.append(Piece(trace, outer[0] if outer else "", kernels, tuple(launches), begin))
    return found


def _named(trace: Trace, launching: pl.DataFrame, inner: Ints) -> list[str | None]:
    """The kernel of each launch, where one of three tells it.

    They are the call itself, the operator where Triton compiled it, and the same operator with the same shapes, which
    launched it outside of a capture.
    """
    said = launching["kernel"].to_list()
    host = trace.host
    place = pl.select(pl.when(pl.Series(inner) >= 0).then(pl.Series(inner))).to_series()
    calls = pl.DataFrame({
        "launch": launching["row"], "inner": inner, "name": host["name"].gather(place).cast(pl.String),
        "shapes": host["input_shapes"].gather(place).cast(pl.String),
    })  # fmt: skip
    calls = calls.with_columns(number=pl.int_range(pl.len()).over("inner"))
    key = ["name", "shapes", "number"]
    ran = trace.device.filter(pl.col("kind") == "kernel").select("launch", kernel=pl.col("name").cast(pl.String))
    eager = calls.filter(pl.col("inner") >= 0).join(ran.drop_nulls(), on="launch")
    eager = eager.group_by(key).agg(pl.col("kernel").first(), names=pl.col("kernel").n_unique()).filter(names=1)
    told = calls.join(eager, on=key, how="left", nulls_equal=True, maintain_order="left")
    triton = pl.when(pl.col("name").str.contains(INDUCTOR.pattern)).then("name")
    by_operator = told.select(pl.coalesce(triton, "kernel")).to_series().to_list()
    return [name or other for name, other in zip(said, by_operator, strict=True)]


class _Ranges:
    """The ranges of a recording, by thread."""

    def __init__(self, trace: Trace) -> None:
        host = trace.host.with_row_index("row").filter((pl.col("kind") == "annotation") & (pl.col("duration") > 0))
        self._host = trace.host
        self._parent = _parents(trace)
        self._of: dict[tuple[object, object], tuple[Ints, Ints, Ints]] = {}
        for (process, thread), rows in host.group_by("process", "thread", maintain_order=True):
            start = rows["start"].to_numpy()
            place = rows["row"].to_numpy().astype(np.int64), start, start + rows["duration"].to_numpy()
            self._of[process, thread] = place

    def around(self, row: int) -> list[int]:
        """The host rows of the ranges in which a call began, the outermost first."""
        return self.at(*(self._host[key][row] for key in ("process", "thread", "start")))

    def at(self, process: int | None, thread: int | None, when: int) -> list[int]:
        """Those in which a thread is at a time."""
        rows, start, end = self._of.get((process, thread), (_NO_ROWS,) * 3)
        at = int(np.searchsorted(start, when, side="right")) - 1
        up = int(rows[at]) if at >= 0 else NONE
        found = []
        while up >= 0:
            if end[np.searchsorted(rows, up)] > when:
                found.append(up)
            up = int(self._parent[up])
        return found[::-1]


def _replays(trace: Trace) -> list[_Replay]:
    """The launches of graphs that have kernels, in order."""
    # by its place in the graph where that is known: branches run as they can
    work = replayed_work(trace).filter(pl.col("kind") == "kernel").sort("when", "launch", "graph_node", "start")
    ranges, names = _Ranges(trace), trace.host["name"]
    found = []
    for (launch,), rows in work.collect().group_by("launch", maintain_order=True):
        around = ranges.around(int(launch))
        told = (_BATCH_OF_STEP.search(str(names[row])) for row in around)
        batch = next((int(match[1] or match[2]) for match in told if match), None)
        step = rows["step"][0]
        group = ("step", step) if step is not None else ("range", around[0]) if around else None
        kernels = tuple(rows["name"].cast(pl.String).to_list())
        found.append(_Replay(int(launch), rows["at"].to_numpy().astype(np.int64), kernels, batch, group))
    return found


class _Fits(Struct, frozen=True):
    """The pieces that a replay may be."""

    pieces: tuple[int, ...]
    launches: tuple[tuple[tuple[int, int], ...], ...]
    """By kernel: piece and place of the launches that it may be of."""
    unnamed: Bools
    """Which kernels have their places by the order alone: no name is known there."""
    incomplete: bool
    """Whether kernels of the pieces are missing."""


def _fitting(pieces: list[Piece], played: list[_Replay]) -> Iterator[_Fits | None]:
    """For each replay what it may be; None where nothing fits."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for one in played:
        if one.kernels not in alike:
            alike[one.kernels] = _of_kernels(one.kernels, pieces)
    possible = [_of_batch(alike[one.kernels], pieces, one.batch) for one in played]
    if pieces and len(played) * len(pieces) <= MOST_PAIRS:
        possible = _in_order(possible, pieces, [one.group for one in played])
    made: dict[tuple[tuple[str, ...], tuple[int, ...]], _Fits | None] = {}
    for one, chosen in zip(played, possible, strict=True):
        key = one.kernels, tuple(chosen)
        if key not in made:
            made[key] = _fits(one.kernels, pieces, key[1])
        yield made[key]


def _of_kernels(kernels: tuple[str, ...], pieces: list[Piece]) -> list[int]:
    """The pieces with these kernels: all in this order, else with some missing, else in another order."""
    size = len(kernels)
    exact = [
        at
        for at, piece in enumerate(pieces)
        if len(piece.kernels) == size
        and (piece.of.info.run_id or any(piece.kernels))  # a run's replays are of what it captured
        and all(said in (None, name) for said, name in zip(piece.kernels, kernels, strict=True))
    ]
    whole = [at for at, piece in enumerate(pieces) if None not in piece.kernels]
    longer = [at for at in whole if len(pieces[at].kernels) > size >= LEAST_OF_PIECE * len(pieces[at].kernels)]
    parts = exact or [at for at in longer if _first_places(kernels, pieces[at].kernels) is not None]
    counts = Counter(kernels)
    return parts or [at for at in whole if len(pieces[at].kernels) == size and Counter(pieces[at].kernels) == counts]


def _first_places(kernels: Sequence[str], of: Sequence[str | None]) -> list[int] | None:
    """Where a sequence occurs in another one with gaps, as early as can be; None where it doesn't."""
    places, at = [], 0
    for name in kernels:
        while at < len(of) and of[at] != name:
            at += 1
        if at == len(of):
            return None
        places.append(at)
        at += 1
    return places


def _fits(kernels: tuple[str, ...], pieces: list[Piece], chosen: tuple[int, ...]) -> _Fits | None:
    if not chosen:
        return None
    by_kernel: list[list[tuple[int, int]]] = [[] for _ in kernels]
    for piece in chosen:
        names = pieces[piece].kernels
        if len(names) == len(kernels) and all(said in (None, name) for said, name in zip(names, kernels, strict=True)):
            places = [[at] for at in range(len(names))]
        elif (first := _first_places(kernels, names)) is not None:
            last = _first_places(kernels[::-1], names[::-1]) or []
            ends = [len(names) - at for at in reversed(last)]
            spans = zip(first, ends, kernels, strict=True)
            places = [[at for at in range(*span) if names[at] == name] for *span, name in spans]
        else:  # the branches of a graph run as they can
            named: dict[str | None, list[int]] = {}
            for at, name in enumerate(names):
                named.setdefault(name, []).append(at)
            places = [named[name] for name in kernels]
        for told, mine in zip(by_kernel, places, strict=True):
            told += [(piece, place) for place in mine]
    unnamed = np.array([all(pieces[piece].kernels[place] is None for piece, place in told) for told in by_kernel], bool)
    incomplete = any(len(pieces[piece].kernels) > len(kernels) for piece in chosen)
    return _Fits(chosen, tuple(map(tuple, by_kernel)), unnamed, incomplete)


def _of_batch(chosen: list[int], pieces: list[Piece], batch: int | None) -> list[int]:
    """Of pieces of several captures those of the batch, or of the next larger one, to which it was filled up."""
    told = {at: int(match[1]) for at in chosen if (match := _BATCH_OF_CAPTURE.search(pieces[at].label))}
    large = [size for size in told.values() if batch is not None and size >= batch]
    if len(told) < len(chosen) or not large:
        return chosen
    return [at for at in chosen if told[at] == min(large)]


def _in_order(possible: list[list[int]], pieces: list[Piece], groups: Sequence[object]) -> list[list[int]]:
    """What remains of the pieces that replays may be if they follow each other as they were captured.

    Within a step or range the replays are a run of one capture's pieces. Where neither is known, the first piece may
    follow the last one, of any capture. Where nothing follows, a run begins anew.
    """
    of = [(id(piece.of), piece.label) for piece in pieces]
    first = np.array([at == 0 or of[at] != of[at - 1] for at in range(len(of))])
    last = np.append(first[1:], True)
    could = np.zeros((len(possible), len(pieces)), np.bool_)
    for row, chosen in zip(could, possible, strict=True):
        row[chosen] = True
    follows = np.zeros(len(possible), np.bool_)
    for at in range(1, len(possible)):
        if groups[at] != groups[at - 1]:
            continue
        after = np.append(False, could[at - 1][:-1] & ~last[:-1])
        if groups[at] is None and (could[at - 1] & last).any():
            after |= first
        if (after & could[at]).any():
            could[at] &= after
            follows[at] = True
    for at in range(len(possible) - 2, -1, -1):
        if follows[at + 1]:
            before = np.append(could[at + 1][1:] & ~first[1:], False)
            if groups[at] is None and (could[at + 1] & first).any():
                before |= last
            could[at] &= before
    return [np.flatnonzero(row).tolist() for row in could]


class _Entry(Struct, frozen=True):
    """An operator or module around a launch, or around each of several that a kernel may be of."""

    rows: tuple[tuple[int, int], ...]
    """Piece, which tells the recording, and host row there."""
    kind: int
    name: str


class _Template(Struct, frozen=True):
    """The host rows that a replay of certain pieces gets below its launch."""

    rows: pl.DataFrame
    """With the columns of `_TAKEN`, and ``depth``."""
    parent: Ints
    """A place among these rows; -1 for what is around the launch."""
    operator: Ints
    """By kernel, a place among the rows, or -1."""
    module: Ints
    unsure: Bools
    """By kernel: whether the pieces disagree on its operator or module."""


class _Rows:
    """The host rows that are added below launches of graphs, and what kernels point to."""

    def __init__(self, trace: Trace, pieces: list[Piece]) -> None:
        self._trace, self._pieces = trace, pieces
        self._made: dict[tuple[int, bool], _Template] = {}
        self._fits: list[_Fits] = []
        self._added: list[tuple[_Replay, _Template]] = []
        host = trace.host
        self._parent, self._kind = _parents(trace), host["kind"].to_physical().to_numpy()
        launches = np.arange(host.height)
        self._in_module = nearest(self._parent, self._kind == _MODULE, launches) >= 0

    def add(self, replay: _Replay, fits: _Fits) -> Bools:
        """Takes the rows of a replay; returns for which kernels the pieces disagree."""
        in_module = bool(self._in_module[replay.launch])
        key = id(fits), in_module
        if key not in self._made:
            self._made[key] = self._template(fits, in_module=in_module)
            self._fits.append(fits)  # keeps its id from being given to another
        self._added.append((replay, self._made[key]))
        return self._made[key].unsure

    def _template(self, fits: _Fits, *, in_module: bool) -> _Template:
        entries: list[_Entry] = []
        parent: list[int] = []
        paths: list[list[int]] = [[]]
        unsure = np.zeros(len(fits.launches), np.bool_)
        alike: dict[tuple[tuple[int, int], ...], list[_Entry]] = {}  # of branches, thousands may be any of thousands
        for at, launches in enumerate(map(tuple, fits.launches)):
            if launches not in alike:
                alike[launches] = _agreed([self._chain(*launch, in_module=in_module) for launch in launches])
            agreed = alike[launches]
            unsure[at] = any(entry.name == AMBIGUOUS for entry in agreed)
            paths.append(_placed(agreed, paths[-1], entries, parent))
        depth: list[int] = []
        for above in parent:
            depth.append(depth[above] + 1 if above >= 0 else 1)

        def innermost(kind: int) -> Ints:
            of_kind = ([row for row in path if entries[row].kind == kind] for path in paths[1:])
            return np.array([rows[-1] if rows else NONE for rows in of_kind], np.int64)

        rows = self._taken(entries).with_columns(depth=pl.Series(depth, dtype=pl.Int16))
        return _Template(rows, np.array(parent, np.int64), innermost(_OPERATOR), innermost(_MODULE), unsure)

    def _chain(self, piece: int, place: int, *, in_module: bool) -> list[_Entry]:
        """What is around a launch; where the launch of the graph is in a module, without those around the capture."""
        of = self._pieces[piece]
        kind, names, start = of.of.host["kind"], of.of.host["name"], of.of.host["start"]
        kept = [row for row in of.launches[place] if not in_module or kind[row] != "module" or start[row] >= of.begin]
        return [_Entry(((piece, row),), _OPERATOR if kind[row] == "operator" else _MODULE, names[row]) for row in kept]

    def _taken(self, entries: list[_Entry]) -> pl.DataFrame:
        """The rows of the host that the entries stand for; what theirs differ in is null."""
        rows: dict[str, list[object]] = {key: [] for key in _TAKEN}
        first: dict[int, int] = {}
        for at, entry in enumerate(entries):
            if (same := first.setdefault(id(entry), at)) != at:
                for column in rows.values():
                    column.append(column[same])
                continue
            sources = dict.fromkeys((id(self._pieces[piece].of), piece, row) for piece, row in entry.rows)
            mine = [(self._pieces[piece].of, row) for _, piece, row in sources]
            for key in _TAKEN:
                values = {trace.host[key][row] for trace, row in mine}
                rows[key].append(values.pop() if len(values) == 1 else None)
            rows["name"][-1] = entry.name
            rows["kind"][-1] = schema.HOST_KINDS[entry.kind]
            stacks = {_stack(trace, row) for trace, row in mine} if entry.kind == _OPERATOR else {None}
            rows["stack"][-1] = rows["stack"][-1] or (stacks.pop() if len(stacks) == 1 else None)
        return pl.DataFrame(rows, {key: schema.HOST[key] for key in _TAKEN})

    def trace(self) -> Trace:
        """The trace with these rows."""
        trace, host = self._trace, self._trace.host
        added = [(replay, made) for replay, made in self._added if made.rows.height]
        if not added:
            return trace
        templates = list({id(made): made for _, made in added}.values())
        begin = dict(zip(map(id, templates), np.cumsum([0, *(made.rows.height for made in templates)]), strict=False))
        sizes = np.array([made.rows.height for _, made in added])
        first = np.append(0, np.cumsum(sizes))[:-1]
        taken = np.concatenate([np.arange(made.rows.height) + begin[id(made)] for _, made in added])
        rows = pl.concat([made.rows for made in templates])[taken]
        launch = np.repeat(np.array([replay.launch for replay, _ in added]), sizes)
        within = np.concatenate([made.parent for _, made in added])
        above = np.where(within >= 0, within + np.repeat(first, sizes) + host.height, launch)
        order = np.argsort(np.append(np.arange(host.height), launch), kind="stable")
        place = np.append(np.argsort(order), NONE)
        more = schema.filled(schema.HOST, rows.with_columns(
            *(host[key].gather(launch) for key in ("start", "process", "thread")),
            duration=pl.lit(0), depth=pl.col("depth") + host["depth"].gather(launch),
        ))  # fmt: skip
        parent = np.append(self._parent, above)
        whole = pl.concat([host, more]).with_columns(schema.row_ids(place[parent]).alias("parent"))
        moved = replace(
            trace,
            host=_moved(whole[order], place, "forward"),
            device=_moved(trace.device, place, *_OF_DEVICE),
            memory=_moved(trace.memory, place, "operator"),
            collectives=_moved(trace.collectives, place, "host", "operator"),
        )
        columns = {key: moved.device[key].cast(pl.Int64).fill_null(NONE).to_numpy().copy() for key in _TOLD}
        for (replay, made), offset in zip(added, first.tolist(), strict=True):
            for key, values in columns.items():
                told = getattr(made, key)
                values[replay.rows[told >= 0]] = place[told[told >= 0] + offset + host.height]
        device = moved.device.with_columns(schema.row_ids(values).alias(key) for key, values in columns.items())
        return replace(moved, device=device)


def _parents(trace: Trace) -> Ints:
    parent: Ints = trace.host["parent"].cast(pl.Int64).fill_null(NONE).to_numpy()
    return parent


def _stack(trace: Trace, row: int) -> str | None:
    """The Python functions around a host row, the innermost first."""
    kind, names, parent = trace.host["kind"], trace.host["name"], trace.host["parent"]
    frames: list[str] = []
    up = parent[row]
    while up is not None and len(frames) < MOST_FRAMES:
        if kind[up] == "python":
            frames.append(str(names[up]).replace(";", ","))
        up = parent[up]
    return ";".join(frames) or None


def _agreed(chains: list[list[_Entry]]) -> list[_Entry]:
    """What several chains have in common; where modules or operators differ, one that says so."""
    if len(chains) == 1:
        return chains[0]
    if len({tuple((entry.kind, entry.name) for entry in chain) for chain in chains}) == 1:
        return [_joined(list(entries)) for entries in zip(*chains, strict=True)]
    found = []
    for kind in (_MODULE, _OPERATOR):
        mine = [[entry for entry in chain if entry.kind == kind] for chain in chains]
        for entries in zip(*mine, strict=False):
            if len({entry.name for entry in entries}) > 1:
                break
            found.append(_joined(list(entries)))
        if len({tuple(entry.name for entry in chain) for chain in mine}) > 1:
            found.append(_Entry(tuple(row for chain in mine for entry in chain for row in entry.rows), kind, AMBIGUOUS))
    return found


def _joined(entries: list[_Entry]) -> _Entry:
    return _Entry(tuple(row for entry in entries for row in entry.rows), entries[0].kind, entries[0].name)


def _placed(path: list[_Entry], before: list[int], entries: list[_Entry], parent: list[int]) -> list[int]:
    """Adds what the launch before it was not in already; returns the places of all."""
    places: list[int] = []
    for depth, entry in enumerate(path):
        if depth < len(before) and entries[before[depth]].rows == entry.rows and places == before[:depth]:
            places.append(before[depth])
            continue
        parent.append(places[-1] if places else NONE)
        entries.append(entry)
        places.append(len(entries) - 1)
    return places


def _moved(frame: pl.DataFrame, place: Ints, *columns: str) -> pl.DataFrame:
    """The frame with row ids of the host as rows were moved."""
    rows = (place[frame[key].cast(pl.Int64).fill_null(NONE).to_numpy()] for key in columns)
    return frame.with_columns(schema.row_ids(moved).alias(key) for key, moved in zip(columns, rows, strict=True))
