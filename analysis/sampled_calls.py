"""Which line of a function made a recorded call, as samples of the clean program tell (`analysis.host_lines`).

A recording with stacks knows the functions that ran, a sample the lines too. Both meet in the innermost function of the
program's own and the chain of Python functions that it called there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import Struct

from tracetui.analysis.attribution.calltree import lanes_of, parents_of
from tracetui.analysis.attribution.place import FRAME, own_frames
from tracetui.analysis.base.names import of_kinds
from tracetui.analysis.base.remembered import kept
from tracetui.analysis.dependencies.host_path import host_path
from tracetui.analysis.host_lines import WITHIN, Sampled, own_place, sampled
from tracetui.parsers.nesting import LaneClock, Nesting, nest

if TYPE_CHECKING:
    from tracetui.analysis.base.intervals import Ints
    from tracetui.analysis.dependencies.model import Model
    from tracetui.analysis.selection import Selection
    from tracetui.parsers import Trace
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
    rows = np.flatnonzero(of_kinds(host["kind"], "python") & (lane == lane[frames.rows[0]]))
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


def calls_at(trace: Trace, when: Ints) -> list[Call | None]:
    """What the program's own functions called at these moments of a recording with stacks."""
    stacks = _stacks(trace)
    if stacks is None:
        return [None] * when.size
    at = stacks.running.innermost_at(np.zeros(when.size, np.int64), when)
    return [stacks.calls[place] if place >= 0 else None for place in at.tolist()]


def line_at(trace: Trace, when: Ints) -> list[int | None] | None:
    """The line of the program's innermost own function at each moment, where samples tell it; None without samples."""
    known = sampled_calls(trace)
    if known is None:
        return None
    found: list[int | None] = []
    for call in calls_at(trace, when):
        lines = Counter() if call is None else known.lines(call)
        most = lines.most_common(1)
        found.append(most[0][0].line if most and most[0][1] > MOSTLY * lines.total() else None)
    return found


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
    work: Counter[Call] = Counter()
    waits: Counter[Call] = Counter()
    for call, ns in zip(calls_at(trace, (path.start + path.end) // 2), path.ns.tolist(), strict=True):
        if call is not None:
            work[call] += ns
    waiting = np.maximum(end.times.call_end - end.times.call_start - end.costs.call, 0)
    for call, ns in zip(calls_at(trace, graph.calls.start), waiting.tolist(), strict=True):
        if call is not None:
            waits[call] += ns
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
