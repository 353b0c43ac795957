"""Which line of a function made a recorded call, as samples of the clean program tell (`analysis.host_lines`).

A recording with stacks knows the functions that ran, a sample the lines too. Both meet in the innermost function of the
program's own and the chain of Python functions that it called there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TypeAlias

import numpy as np
import polars as pl
from msgspec import Struct

from tracetui.analysis.attribution.calltree import NONE, lanes_of, parents_of
from tracetui.analysis.attribution.generated import call_lines
from tracetui.analysis.attribution.place import (
    BACKWARD,
    FRAME,
    is_of_library,
    launching_rows,
    or_null,
    own_frames,
    placed,
    recorder_frames,
)
from tracetui.analysis.base.names import matching, of_kinds
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.dependencies.host_path import host_path
from tracetui.analysis.dependencies.model import Model
from tracetui.analysis.host_lines import WITHIN, Sampled, own_place, sampled
from tracetui.analysis.selection import Selection
from tracetui.parsers import Trace
from tracetui.parsers.arrays import Ints
from tracetui.parsers.nesting import LaneClock, Nesting, nearest, nest
from tracetui.parsers.runs.samples import Frame

Chain: TypeAlias = tuple[str, ...]
"""The functions called, the outermost first."""
Call: TypeAlias = "tuple[str, str, Chain]"
"""File and name of a function of the program's own, and what it called."""
MOST_WAITING = 0.1
"""Where waits take more than this part of what several lines called, their samples are not in proportion to work."""
MOST_UNSURE = 1.0
"""A share of the path that is less sure than by so many percent of the path is not told."""
MOSTLY = 0.9
"""One line stands for a call where it has more than this part of the call's samples."""
_IN_TORCH = "_wrapped_call_impl"
"""A recording has the module in its place."""


class _Stacks(Struct, frozen=True):
    """The functions of the thread that runs the program, in the recording."""

    running: Nesting
    rows: Ints
    calls: list[Call | None]
    """Of each of these host rows; None outside the program's own functions."""


@kept
def _stacks(trace: Trace) -> _Stacks | None:
    host, frames = trace.host, own_frames(trace)
    if not frames.rows.size:
        return None
    lane, parent = lanes_of(host), parents_of(host)
    rows = np.flatnonzero(of_kinds(host["kind"], "python") & (lane == lane[frames.rows[0]]) & ~recorder_frames(host))
    start, end = host["start"].to_numpy()[rows], host["start"].to_numpy()[rows] + host["duration"].to_numpy()[rows]
    running = nest(np.zeros(rows.size, np.int64), start, end - start, LaneClock(1, start, end))
    found: dict[int, Call | None] = {-1: None}
    for row, name in zip(rows.tolist(), host["name"].gather(rows).to_list(), strict=True):
        above = int(parent[row])
        while above not in found:
            above = int(parent[above])
        outer, match = found[above], FRAME.fullmatch(name)
        found[row] = outer
        if match is not None and frames.own[row] and not (outer and match["function"].endswith(WITHIN)):
            found[row] = (match["file"], match["function"], ())
        elif match is not None and outer is not None:
            found[row] = (*outer[:2], (*outer[2], match["function"]))
    return _Stacks(running, rows, [found[row] for row in rows.tolist()])


class SampledCalls:
    """The lines of the program's functions that were sampled, by what they called."""

    def __init__(self, of: Sampled) -> None:
        self.whole_ns = of.whole_ns
        self._lines: dict[tuple[str, str], dict[Chain, Counter[Frame]]] = defaultdict(lambda: defaultdict(Counter))
        self._known: dict[Call, Counter[Frame]] = {}
        for thread, stack, ns in of.stays():
            at = own_place(stack) if of.file.threads[thread].steps else None
            if at is not None:
                chain = tuple(name for frame in stack[at + 1 :] if (name := _last(frame.function)) != _IN_TORCH)
                self._lines[_base(stack[at].file), _last(stack[at].function)][chain][stack[at]] += ns

    def lines(self, call: Call) -> Counter[Frame]:
        """The time of the lines of a function that made a call, or as much of its chain as was sampled."""
        if call not in self._known:
            self._known[call] = self._found(*call)
        return self._known[call]

    def _found(self, file: str, function: str, chain: Chain) -> Counter[Frame]:
        by_chain = self._lines.get((_base(file), function), {})
        of_file = {
            seen: Counter({line: ns for line, ns in lines.items() if _is_same_file(line.file, file)})
            for seen, lines in by_chain.items()
        }
        if of_file.get(chain):
            return of_file[chain]
        for size in range(len(chain), -1, -1):
            within: Counter[Frame] = sum(
                (lines for seen, lines in of_file.items() if seen[:size] == chain[:size]), Counter()
            )
            if within:
                return within
        return Counter()


@kept
def sampled_calls(trace: Trace) -> SampledCalls | None:
    """Those of a recording's run; None where it was not sampled."""
    found, _ = sampled(trace)
    return None if found is None else SampledCalls(found)


def _moments(stacks: _Stacks, when: Ints) -> tuple[list[Call | None], Ints]:
    """What the program's own functions called at these moments, each call once, and which of them each is."""
    at = stacks.running.innermost_at(np.zeros(when.size, np.int64), when)
    distinct, which = np.unique(at, return_inverse=True)
    return [stacks.calls[place] if place >= 0 else None for place in distinct.tolist()], which


def _lines_at(trace: Trace, when: Ints) -> tuple[list[tuple[Call, int] | None], Ints] | None:
    """What ran at these moments and its line, each once, and which of them each moment has; None without samples."""
    known = sampled_calls(trace)
    stacks = None if known is None else _stacks(trace)
    if known is None or stacks is None:
        return None
    found: list[tuple[Call, int] | None] = []
    calls, which = _moments(stacks, when)
    for call in calls:
        lines = Counter() if call is None else known.lines(call)
        most = lines.most_common(1)
        is_known = most and most[0][1] > MOSTLY * lines.total()
        found.append((call, most[0][0].line) if call is not None and is_known else None)
    return found, which


def _lines_in(trace: Trace, frames: pl.Series, when: Ints) -> pl.Series:
    """The line of each frame at that moment, if it is the function that the sampled thread was in."""
    found = _lines_at(trace, when)
    if found is None:
        return pl.repeat(None, when.size, dtype=pl.Int64, eager=True)
    table = pl.DataFrame({"frame": frames, "at": found[1]})
    pairs = table.unique()
    lines = []
    for frame, at in pairs.iter_rows():
        match, ran, line = FRAME.fullmatch(frame or ""), found[0][at], None
        if match is not None and ran is not None and match["file"] == ran[0][0]:
            line = ran[1] if match["function"] == ran[0][1] or match["function"].endswith(WITHIN) else None
        lines.append(line)
    pairs = pairs.with_columns(line=pl.Series(lines, dtype=pl.Int64))
    return table.join(pairs, on=["frame", "at"], how="left", nulls_equal=True, maintain_order="left")["line"]


def located(trace: Trace, rows: Ints, when: Ints | None = None, ranges: pl.Series | None = None) -> pl.DataFrame:
    """Where in the program events are, by all that is recorded: stacks, modules, ranges, and samples for the lines.

    Args:
        trace: whose events they are.
        rows: the host row of each: the event itself, or its launch; -1 where none is known.
        when: the time of each, by default its row's start.
        ranges: the range of each, which is told where neither frame nor module is known.

    Returns:
        The columns of `placed`, and the line that was sampled in the frame; null of backward work.
    """
    start = np.append(trace.host["start"].to_numpy(), 0)[rows] if when is None else when
    table = placed(trace, rows, when, ranges)
    line = pl.when(~pl.col("backward")).then(pl.lit(_lines_in(trace, table["frame"], start)))
    return table.with_columns(line=line)


def told(there: pl.DataFrame) -> pl.Series:
    """``train.py(40): step, line 45`` of each row that `located` returned; null where no frame was recorded.

    The number in brackets is the function's first line; the other one is there where it was sampled. Of backward work
    it is the forward's, and said so.
    """
    table = there.select("frame", "backward", "line")
    distinct = table.unique()
    texts = pl.Series("told", [_told(*row) for row in distinct.iter_rows()], dtype=pl.String)
    distinct = distinct.with_columns(texts)
    return table.join(distinct, on=table.columns, how="left", nulls_equal=True, maintain_order="left")["told"]


def _told(frame: str | None, backward: bool, line: int | None) -> str | None:
    text = f"{frame}, line {line}" if frame and line is not None else frame
    return f"{BACKWARD}{text}" if text and backward else text


def lines(trace: Trace, device: pl.DataFrame) -> pl.Series:
    """Where the program's own code launched each device row, as `told`.

    Of what a compiled graph calls, the lines that it was made from; of a script whose own code is its top level alone,
    the library's innermost function too.
    """
    host = trace.host
    if host["stack"].null_count() == host.height and not of_kinds(host["kind"], "python").any():
        return pl.repeat(None, device.height, dtype=pl.String, eager=True)
    none = pl.repeat(None, device.height, dtype=pl.Categorical, eager=True)
    rows = launching_rows(device)
    there = located(trace, rows, ranges=none)
    texts, called = _with_library(trace, rows, there, told(there)), call_lines(trace)
    if not called.height:
        return texts
    is_called = np.zeros(host.height, np.bool_)
    is_called[called["row"].to_numpy()] = True
    call = pl.DataFrame({"row": nearest(parents_of(host), is_called, rows), "backward": there["backward"]})
    made = call.join(called, on="row", how="left", maintain_order="left").select(
        pl.when("backward").then(BACKWARD + pl.col("line")).otherwise("line").alias("line")
    )
    return pl.select(pl.coalesce(made["line"], texts)).to_series()


def _with_library(trace: Trace, rows: Ints, there: pl.DataFrame, texts: pl.Series) -> pl.Series:
    is_top = there["frame"].cast(pl.String).str.ends_with(": <module>").fill_null(value=False) & ~there["backward"]
    top = np.flatnonzero(is_top.to_numpy())
    if not top.size:
        return texts
    host, frame = trace.host, own_frames(trace).frame
    library = of_kinds(host["kind"], "python") & matching(host["name"], is_of_library)
    within = nearest(parents_of(host), library, rows[top])
    within[frame[within] != frame[rows[top]]] = NONE
    names = pl.Series(host["name"].gather(or_null(within))).cast(pl.String)
    found = pl.Series(pl.repeat(None, rows.size, dtype=pl.String, eager=True)).scatter(top, names)
    return pl.select(pl.coalesce(texts + ", in " + found, texts)).to_series()


def path_by_line(sel: Selection, model: Model) -> dict[Frame, float | None]:
    """Percent of the critical path that is the host's work in each sampled line.

    What several lines may have called is divided among them as their samples are. Where waits, which are samples too,
    are a part of that, a line's work is only known not to be more than its samples; None where that says too little.
    Lines of functions that were not recorded are left out.
    """
    trace, known = sel.trace, sampled_calls(sel.trace)
    stacks = None if known is None else _stacks(trace)
    if known is None or stacks is None:
        return {}
    path, graph, end = host_path(sel, model), model.graph, model.ends[0]

    def add_up(spent: Counter[Call], when: Ints, ns: Ints) -> None:
        found, which = _moments(stacks, when)
        for call, total in zip(found, np.bincount(which, ns, len(found)).tolist(), strict=True):
            if call is not None:
                spent[call] += round(total)

    work: Counter[Call] = Counter()
    waits: Counter[Call] = Counter()
    add_up(work, (path.start + path.end) // 2, path.ns)
    waiting = np.maximum(end.times.call_end - end.times.call_start - end.costs.call, 0)
    add_up(waits, graph.calls.start, waiting)
    spent: defaultdict[Frame, float] = defaultdict(float)
    unsure: defaultdict[Frame, float] = defaultdict(float)
    for call in dict.fromkeys(call for call in stacks.calls if call is not None):
        lines, percent = known.lines(call), 100 * work[call] / max(path.total_ns, 1)
        in_proportion = len(lines) <= 1 or waits[call] <= MOST_WAITING * (waits[call] + work[call])
        at_most = {line: 100 * ns / known.whole_ns for line, ns in lines.items()}
        for line, ns in lines.items():
            high, low = min(percent, at_most[line]), max(percent - sum(at_most.values()) + at_most[line], 0.0)
            if in_proportion or high < low:  # samples of another pace than the replay
                high = low = percent * ns / lines.total()
            spent[line] += (low + high) / 2
            unsure[line] += (high - low) / 2
    return {line: percent if unsure[line] <= MOST_UNSURE else None for line, percent in spent.items()}


def _last(function: str) -> str:
    """A function without what it is in, which samplers name and recordings don't: `forward` of `Linear.forward`."""
    return function.rpartition(".")[2]


def _base(file: str) -> str:
    return file.rpartition("/")[2]


_HOME = re.compile(r"^~?/")


def _is_same_file(one: str, other: str) -> bool:
    """Whether two names may be of one file: recordings leave out the folder that modules are found in."""
    one, other = (f"/{_HOME.sub('', name)}" for name in (one, other))
    return one.endswith(other) or other.endswith(one)
