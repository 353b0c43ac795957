"""Turns the columns of an Events into a Trace: classifies, sorts, nests and links them."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracetui.parsers import categories, links, schema
from tracetui.parsers.arrays import Ints
from tracetui.parsers.chrome import classify, columns
from tracetui.parsers.chrome.collectives import collectives_frame
from tracetui.parsers.chrome.columns import NULL, Columns, Events
from tracetui.parsers.chrome.layout import marked_steps
from tracetui.parsers.nesting import NONE, LaneClock, Nesting, nearest, nest, order
from tracetui.parsers.schema import column, frame, integers, row_ids
from tracetui.parsers.tally import Tally
from tracetui.parsers.trace import Source, Trace, TraceInfo

OPERATOR, MODULE, ANNOTATION = (schema.HOST_KINDS.index(kind) for kind in ("operator", "module", "annotation"))
DATALOADER = schema.HOST_KINDS.index("dataloader")
RUNTIME, DRIVER = schema.HOST_KINDS.index("runtime"), schema.HOST_KINDS.index("driver")
METRIC, SAMPLE = (np.uint8(schema.COUNTER_KINDS.index(kind)) for kind in ("metric", "sample"))
STEP_PREFIX = "ProfilerStep#"
_STEP = rf"^{STEP_PREFIX}\d{{1,18}}$"
_NUMBERS = re.compile(r"\d+")
PROFILERS_OWN = "^profiler::"
"""Operators that open and close ranges."""
_LAUNCHES_KERNEL = r"^(cuda|cu|hip)\w*Launch\w*Kernel"
TASK = "^autograd::engine::evaluate_function: "


def build_trace(events: Events, info: TraceInfo, source: Source, tally: Tally) -> Trace:
    """Links the events of one file into the six frames.

    This consumes the groups of `events`, so that their memory is freed as the frames grow.
    """
    classify.settle(events, info)
    host, device = events.groups.pop("host"), events.groups.pop("device")
    memory, flows = events.groups.pop("memory"), events.groups.pop("flows")

    links.to_one_clock(device, host, tally)
    _part_ranges(host, tally)
    external = links.external_ids_usable(host["correlation"], host["external_id"], NULL)
    lane, threads = _lanes(host, external, tally)
    clock = LaneClock(3 * threads.size, host["start"], host["start"] + host["duration"])
    _sort_host(host, lane, clock)
    nesting = nest(lane, host["start"], host["duration"], clock)
    crossed = _crossed_steps(host, lane, nesting)
    if crossed.size:
        lane[crossed] = 2 * threads.size + lane[crossed] // 2
        _sort_host(host, lane, clock)
        nesting = nest(lane, host["start"], host["duration"], clock)
    if nesting.cut.size:
        example = categories.texts(host["name"][nesting.cut[:1]])
        tally.repaired("event outlived its parent and was cut at the parent's end", nesting.cut.size, *example.values())
        host["duration"] = nesting.end - host["start"]

    rows = device["start"].argsort(kind="stable")
    for name in device:
        device[name] = device[name][rows]
    steps = _steps(host)
    if not steps.height:
        steps = marked_steps(events.header, info, host, device, tally)
    forward = _forward_operators(host, nesting, threads, flows)
    counted = {int(device["offset"][row]): row for row in np.flatnonzero(device["kind"] == classify.COUNTED).tolist()}
    linked = _link_device(host, device, nesting, lane, forward, external, steps, tally)
    said = events.groups.pop("collectives")
    collectives = collectives_frame(said, host, device, linked, nesting.parent, info.groups)

    return Trace(
        steps=steps,
        host=_host_frame(host, nesting, forward),
        device=frame(schema.DEVICE, device, linked),
        memory=_memory_frame(memory, host["kind"], nesting, threads),
        counters=_counters_frame(events.groups.pop("counters"), counted),
        info=info,
        source=source,
        notes=tally.notes(),
        collectives=collectives,
    )


def _lanes(host: Columns, external: bool, tally: Tally) -> tuple[Ints, Ints]:
    """Returns each event's lane number, and the threads, each as one value: of n threads t has lanes 2t and 2t + 1.

    A thread's calls nest on its first lane, its annotations on the second: a range is often opened inside a call that
    returns before the range is closed (`record_function.__enter__`), and neither may cut the other. Lane 2n + t is for
    its step marks where ranges cross them. API calls that have
    a thread id of their own move to the thread of the operators that made them.
    """
    pair = columns.mixed(host["process"], host["thread"])
    # events of one thread come in long runs, so only the runs' first rows are sorted
    runs = np.flatnonzero(np.concatenate((np.ones(min(pair.size, 1), np.bool_), pair[1:] != pair[:-1])))
    threads, number = np.unique(pair[runs], return_inverse=True)
    lane = np.repeat(2 * number.astype(np.int64), np.diff(runs, append=pair.size))
    if external:
        api = np.flatnonzero((host["kind"] == RUNTIME) | (host["kind"] == DRIVER))
        operators = np.flatnonzero((host["kind"] == OPERATOR) & (host["external_id"] != NULL))
        moves = links.runtime_thread_map(
            lane[api], host["external_id"][api], lane[operators], host["external_id"][operators], NULL
        )
        for stray, home in moves.items():
            moved = api[lane[api] == stray]
            example = f"{host['thread'][moved[0]]} is {host['thread'][operators[lane[operators] == home][0]]}"
            tally.repaired("API call moved to its operator's thread id", moved.size, example)
            lane[moved] = home
            host["thread"][moved] = host["thread"][operators[lane[operators] == home][0]]
    lane[(host["kind"] == ANNOTATION) | (host["kind"] == DATALOADER)] += 1
    return lane, threads


def _crossed_steps(host: Columns, lane: Ints, nesting: Nesting) -> Ints:
    """The step marks of threads in which one ends within a range that goes on to work.

    `profiler.step()` ends a step wherever it is called: in Lightning after the forward pass, within the range of the
    optimizer, whose closure that is. Such marks are no part of the tree of ranges. A range that does nothing more but
    return from that call is cut as others are.
    """
    cut: Ints = nesting.cut[(host["kind"][nesting.cut] == ANNOTATION) & (nesting.parent[nesting.cut] >= 0)]
    if not cut.size:
        return cut
    marks = _step_marks(host)
    cut = cut[np.isin(nesting.parent[cut], marks)]
    working = np.flatnonzero(np.isin(host["kind"], (OPERATOR, RUNTIME, DRIVER)))
    working = working[~categories.matching(host["name"][working], PROFILERS_OWN)]
    begun = nesting.clock.key(lane[working], host["start"][working])
    calls = lane[cut] - 1
    from_, to = (
        np.searchsorted(begun, nesting.clock.key(calls, time))
        for time in (nesting.end[cut], host["start"][cut] + host["duration"][cut])
    )
    crossed: Ints = marks[np.isin(lane[marks], lane[cut[to > from_]])]
    return crossed


def _thread_lanes(threads: Ints, process: Ints, thread: Ints) -> Ints:
    """The lane of each thread's calls, or -1 for a thread without host events."""
    pair = columns.mixed(process, thread)
    if not threads.size:
        return np.full(pair.size, NONE, np.int64)
    at = np.minimum(np.searchsorted(threads, pair), threads.size - 1)
    return np.where(threads[at] == pair, 2 * at, NONE)


def _sort_host(host: Columns, lane: Ints, clock: LaneClock) -> None:
    """Sorts the host columns and `lane` in nesting order, one column at a time."""
    rows = order(lane, host["start"], host["duration"], clock)
    lane[:] = lane[rows]
    for name in host:
        host[name] = host[name][rows]


def _steps(host: Columns) -> pl.DataFrame:
    """The ProfilerStep annotations of the thread with the most of them, by start; in JAX the numbered annotations."""
    if "step" in host and (host["step"] != NULL).any():
        return _numbered_steps(host)
    marks = _step_marks(host)
    names = categories.texts(host["name"][marks])
    if marks.size:  # a file of several ranks has threads of one number in each process
        lanes = columns.mixed(host["process"][marks], host["thread"][marks])
        _, first, counts = np.unique(lanes, return_index=True, return_counts=True)
        marks = marks[lanes == lanes[first[np.lexsort((first, -counts))[0]]]]
    texts = [names[code] for code in host["name"][marks].tolist()]
    return pl.DataFrame(
        {
            "index": [int(text.removeprefix(STEP_PREFIX)) for text in texts],
            "name": texts,
            "start": host["start"][marks],
            "duration": host["duration"][marks],
        },
        schema=schema.STEPS,
    ).sort("start")


def _step_marks(host: Columns) -> Ints:
    """The rows of the ProfilerStep annotations."""
    marks = np.flatnonzero(host["kind"] == ANNOTATION)
    found: Ints = marks[categories.matching(host["name"][marks], _STEP)]
    return found


def _part_ranges(host: Columns, tally: Tally) -> None:
    """Ends each range where the next one of its thread and name, numbers left out, begins before it ends.

    Unless it holds that one: steps and the like follow each other, and times since 1970 in µs have a resolution of a
    quarter of one.
    """
    marks = np.flatnonzero(host["kind"] == ANNOTATION)
    labels: dict[str, int] = {}
    names = host["name"][marks]
    number = categories.numbers(names, lambda name: labels.setdefault(_NUMBERS.sub("#", name), len(labels)))
    group = columns.mixed(columns.mixed(host["process"][marks], host["thread"][marks]), number)
    order = np.lexsort((host["start"][marks], group))
    marks, group = marks[order], group[order]
    start, end = host["start"][marks], host["start"][marks] + host["duration"][marks]
    over = (group[:-1] == group[1:]) & (start[1:] > start[:-1]) & (end[:-1] > start[1:]) & (end[1:] > end[:-1])
    cut = marks[:-1][over]
    if cut.size:
        host["duration"][cut] = (start[1:] - start[:-1])[over]
        (example,) = categories.texts(host["name"][cut[:1]]).values()
        tally.repaired("range ended after the next one of its name began, and was cut there", cut.size, example)


def _numbered_steps(host: Columns) -> pl.DataFrame:
    """The step annotations of the most frequent thread and name, by start, without those inside another one.

    If two are equally frequent, those that start first count.
    """
    marks = np.flatnonzero(host["step"] != NULL)
    marks = marks[np.lexsort((-host["duration"][marks], host["start"][marks]))]
    group, first = columns.lanes(columns.lanes(host["process"][marks], host["thread"][marks])[0], host["name"][marks])
    counts = np.bincount(group)
    marks = marks[group == np.lexsort((first, -counts))[0]]
    start, end = host["start"][marks], host["start"][marks] + host["duration"][marks]
    reached = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
    marks = marks[start >= reached]
    return pl.DataFrame(
        {
            "index": host["step"][marks],
            "name": categories.decode(host["name"][marks]).cast(pl.String),
            "start": host["start"][marks],
            "duration": host["duration"][marks],
        },
        schema=schema.STEPS,
    )


def _forward_operators(host: Columns, nesting: Nesting, threads: Ints, flows: Columns) -> Ints:
    """The operator in which the forward/backward flow started that ends in each operator; -1 without a flow.

    The autograd engine's task around a backward operator gets the same forward operator, and so do its other tasks of
    that name and sequence number: a graph that several backward passes go through has flows to one of them.
    """
    forward = np.full(host["start"].size, NONE, np.int64)
    lane = _thread_lanes(threads, flows["process"], flows["thread"])
    at = nearest(nesting.parent, host["kind"] == OPERATOR, nesting.innermost_at(lane, flows["time"]))
    begins = np.flatnonzero(flows["begins"] & (at >= 0))
    finishes = np.flatnonzero(~flows["begins"] & (at >= 0))
    source = links.lookup(flows["id"][begins], flows["id"][finishes])
    matched = source >= 0
    backward = at[finishes[matched]]
    forward[backward] = at[begins[source[matched]]]

    # autograd's engine does part of a node's work around it: it sums a gradient to its shape and adds branches up
    around = nesting.parent[backward]
    backward, around = backward[around >= 0], around[around >= 0]
    inside = categories.matching(host["name"][around], TASK)
    forward[around[inside]] = forward[backward[inside]]
    tasks = np.flatnonzero(categories.matching(host["name"], TASK) & (host["sequence"] != NULL))
    if (forward[tasks] < 0).any():
        found = pl.DataFrame({"name": host["name"][tasks], "number": host["sequence"][tasks], "of": forward[tasks]})
        known = pl.col("of").replace(NONE, None)
        # threads count apart: what two of them gave tells nothing
        one = pl.when(known.drop_nulls().n_unique().over("name", "number") == 1).then(
            known.max().over("name", "number")
        )
        forward[tasks] = found.select(pl.coalesce(known, one).fill_null(NONE)).to_series().to_numpy()
    return forward


def _link_device(
    host: Columns,
    device: Columns,
    nesting: Nesting,
    lane: Ints,
    forward: Ints,
    external: bool,
    steps: pl.DataFrame,
    tally: Tally,
) -> dict[str, Ints]:
    """The host rows that each device activity belongs to."""
    kind, parent = host["kind"], nesting.parent
    api = np.flatnonzero((host["correlation"] != NULL) & ((kind == RUNTIME) | (kind == DRIVER)))
    launching = links.launches(host["name"][api])
    launch = links.match_launches(device, host, api, launching, NULL, tally)
    _link_counted(host, device, api, launch)

    is_operator, is_module = kind == OPERATOR, kind == MODULE
    operator = nearest(parent, is_operator, launch)
    if external:  # containment first; the id is used if no operator encloses the launch
        lost = np.flatnonzero((operator < 0) & (device["external_id"] != NULL))
        operators = np.flatnonzero(is_operator)
        named = links.lookup(host["external_id"][operators], device["external_id"][lost])
        operator[lost[named >= 0]] = operators[named[named >= 0]]
    context = np.where(launch >= 0, launch, operator)
    module = nearest(parent, is_module, np.where(nearest(parent, is_module, context) >= 0, context, operator))
    backward = nearest(parent, forward >= 0, operator)
    forward_module = np.full(launch.size, NONE, np.int64)
    known = backward >= 0
    forward_module[known] = nearest(parent, is_module, forward[backward[known]])

    # a launch belongs to the range and step in which its call starts, an activity without a call to the step it runs in
    known = context >= 0
    when = device["start"].copy()
    when[known] = host["start"][context[known]]
    around = np.full(launch.size, NONE, np.int64)
    around[known] = nesting.innermost_at(lane[context[known]] + 1, when[known])
    start = steps["start"].to_numpy()
    step = links.held_by(start, start + steps["duration"].to_numpy(), when)
    before = links.queued_before(context, device["kind"], device["device"], device["stream"])
    step[before] = NONE
    tally.missing(links.QUEUED, int(before.sum()))
    return {
        "launch": launch,
        "operator": operator,
        "module": module,
        "forward_module": forward_module,
        "range": nearest(parent, kind == ANNOTATION, around),
        "step": step,
    }


def _link_counted(host: Columns, device: Columns, api: Ints, launch: Ints) -> None:
    """Fills in the calls that launched counted kernels, in place: one by one, if there are as many launches as kernels.

    Args:
        host: the host events.
        device: the device's activities, by start.
        api: the rows of calls.
        launch: the call of each activity; -1 where it is not known.
    """
    rows = np.flatnonzero(device["kind"] == classify.COUNTED)
    if not rows.size:
        return
    calls = api[categories.matching(host["name"][api], _LAUNCHES_KERNEL)]
    if calls.size == rows.size:
        launch[rows] = calls[np.argsort(host["start"][calls], kind="stable")]


def _host_frame(host: Columns, nesting: Nesting, forward: Ints) -> pl.DataFrame:
    kind = host["kind"].copy()
    linked = frame(schema.HOST, host, {"parent": nesting.parent, "forward": forward}, depth=pl.Series(nesting.depth))
    host["kind"] = kind  # still needed for the memory events
    return linked


def _memory_frame(memory: Columns, kind: NDArray[np.uint8], nesting: Nesting, threads: Ints) -> pl.DataFrame:
    rows = memory["time"].argsort(kind="stable")
    for name in memory:
        memory[name] = memory[name][rows]
    lane = _thread_lanes(threads, memory["process"], memory["thread"])
    operator = nearest(nesting.parent, kind == OPERATOR, nesting.innermost_at(lane, memory["time"]))
    freed = pl.Series(memory["bytes"] < 0)
    action = pl.select(pl.when(freed).then(pl.lit("free")).otherwise(pl.lit("alloc")).cast(schema.MemoryAction))
    return frame(schema.MEMORY, memory, {"operator": operator}, action=action.to_series())


def _counters_frame(counters: Columns, counted: dict[int, int]) -> pl.DataFrame:
    """Samples of the trace's counters, and the counters of kernels.

    Args:
        counters: the columns that the reader filled.
        counted: the row of each kernel that was run for its counters, by its place in the file.
    """
    size = counters["time"].size
    row = np.full(size, NONE, np.int64)
    if "counted" in counters:
        row[:] = [counted.get(at, NONE) for at in counters["counted"].tolist()]
    rows = pl.DataFrame(
        {
            "kind": column(schema.CounterKind, np.where(row >= 0, METRIC, SAMPLE)),
            "device_row": row_ids(row),
            "time": integers(counters["time"]),
            "section": categories.decode(counters["name"]),
            "metric": categories.decode(counters["series"]),
            "value": pl.Series(counters["value"], nan_to_null=True),
        }
    )
    return schema.filled(schema.COUNTERS, rows)
