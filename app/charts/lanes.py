"""The lanes of a timeline: their titles, rows of slices with names or of how busy each cell is, and arrows."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracetui.analysis.base import number_format
from tracetui.analysis.gpu.idle import IDLE_WORDS
from tracetui.analysis.timeline.rows import NONE, Curve
from tracetui.app.charts.cells import ASCII_EIGHTHS, EIGHTHS, Run
from tracetui.app.charts.gantt import GanttLane
from tracetui.app.text import fitting
from tracetui.parsers.arrays import Ints
from tracetui.parsers.names.kernel_names import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.analysis.timeline.lanes import Lane
    from tracetui.analysis.timeline.timeline import Timeline


LANE_WORDS = {
    "steps": "steps",
    "path": "critical path",
    "idle": "idle",
    "samples": "samples",
    "collectives": "collectives",
    "gpu ranges": "ranges",
    "stream": "stream",
    "copies": "copies",
    "syncs": "syncs",
    "ranges": "ranges",
    "modules": "modules",
    "calls": "calls",
    "system": "system",
    "python": "Python",
}
SHORT_WORDS = {
    "collectives": "coll.",
    "critical path": "crit. path",
    "Python": "Py",
    "modules": "mods",
    "system": "sys",
}


def lane_title(lane: Lane, *, short: bool = False) -> str:
    """Returns the title of a lane: ``GPU 0 stream 7``, ``python3 424 calls``."""
    if lane.rank is not None:
        # of a rank, which mostly has one GPU, its number says enough where there is little room
        own = replace(lane, rank=None, device=None if short else lane.device)
        title = lane_title(own, short=short).removeprefix("GPU " if short else "")
        return f"r{lane.rank} {title}" if short else f"rank {lane.rank} {title}"
    what = LANE_WORDS[lane.kind]
    if lane.kind in ("steps", "path", "collectives"):
        return SHORT_WORDS.get(what, what) if short else what
    gpu = "GPU" if lane.device is None else f"GPU{lane.device}" if short else f"GPU {lane.device}"
    if lane.kind in ("stream", "gpu ranges"):
        number = "?" if lane.stream is None else str(lane.stream)
        of = lane.name if lane.stream is None and lane.name else f"strm {number}" if short else f"stream {number}"
        if lane.kind == "stream":
            return f"{gpu} {of}"
        return f"{gpu} {what} {of.removeprefix('strm ')}" if short else f"{gpu} {of} {what}"
    if lane.source in ("device", "idle", "samples"):
        return f"{gpu} {what}"
    number = "?" if lane.thread is None else str(lane.thread)
    return f"{SHORT_WORDS.get(what, what)} {number}" if short else f"{what} {_thread_name(lane.name, number)}{number}"


def _thread_name(name: str, number: str) -> str:
    """Returns the name without the number and word that Kineto adds: ``thread 424 (python3)``."""
    inner = name.removeprefix(f"thread {number}").strip()
    if inner.startswith("(") and inner.endswith(")"):
        inner = inner[1:-1]
    return f"{inner} " if inner and inner != number else ""


SLICE = 3
"""The least cells for an event to be drawn as a slice with its name."""


class Look(NamedTuple):
    """How a kind of event is drawn."""

    style: str
    letter: str
    """The letter of a narrow event, a capital if it fills half of the cell; if empty, a bar shows the share."""
    fill: str
    """The text after the name in a slice."""
    ascii_fill: str


LOOKS = {
    "kernel": Look("gpu", "", "━", "="),
    "graph": Look("gpu", "g", "≡", "#"),
    "memcpy": Look("copy", "c", "»", ">"),
    "memset": Look("copy", "z", "○", "0"),
    "synchronization": Look("wait", "y", "~", "~"),
    "annotation": Look("range", "", "─", "-"),
    "counted": Look("gpu", "", "━", "="),  # its trace has no time line
    "operator": Look("op", "", "─", "-"),
    "module": Look("module", "", "─", "-"),
    "python": Look("python", "", "┈", "."),
    "dataloader": Look("wait", "d", "~", "~"),
    "runtime": Look("api", "a", "╌", "+"),
    "driver": Look("api", "a", "╌", "+"),
    "overhead": Look("wait", "v", "!", "!"),
    "os": Look("api", "", "╌", "+"),
    "steps": Look("range", "", "─", "-"),
    "idle": Look("idle", "", "░", ":"),
    "samples": Look("range", "", "─", "-"),
}
"""Keyed by `schema.HOST_KINDS`, `schema.DEVICE_KINDS` and the sources of other lanes."""
ON_PATH = {
    "loader": Look("wait", "d", "~", "~"),
    "python": Look("python", "h", "┈", "."),
    "operator": Look("op", "h", "─", "-"),
    "api": Look("api", "a", "╌", "+"),
    "host": Look("python", "h", "┈", "."),
    "wait": Look("wait", "y", "~", "~"),
    "launch": Look("api", "l", "╌", "+"),
    "kernel": LOOKS["kernel"],
    "communication": Look("copy", "m", "»", ">"),
    "memcpy": LOOKS["memcpy"],
    "memset": LOOKS["memset"],
    "gap": Look("idle", "i", "░", ":"),
    "return": Look("api", "r", "╌", "+"),
}
"""How pieces of the critical path are drawn, by what it runs through (`critical_path.RESOURCES`)."""
_KINDS = sorted({look.style for look in LOOKS.values()})
STYLES = (*_KINDS, *(f"{kind}-slice" for kind in _KINDS), "selected", "gap", "axis", "label", "cursor", "arrow")
LEGEND = (
    ("Slices", "an event of three cells or more begins with a bar and carries its name"),
    ("▁▂▃▄▅▆▇█", "narrow events: how much of the cell they fill (ASCII: . - = #)"),
    ("c C z Z", "narrow copies and fills; capitals where they fill half of the cell or more"),
    ("g G", "the same for CUDA graphs among kernels"),
    ("a A", "the same for CUDA API calls among operators"),
    ("d v y", "the same for waits: for data, for the profiler itself, for the GPU"),
    ("◆", "the selected event, where others hide it (ASCII: *)"),
    ("·", "nothing runs on this stream (ASCII: _)"),
    ("[ ] B", "on the ruler: the ends of the marked range, a bookmark"),
    ("h a l d m", "on the critical path: host, API call, launch, waiting for data, communication"),
    ("y r i", "and: a wait, the return of a call that waited, a gap between kernels; bars are GPU work"),
    ("●─▶", "from the launch to its GPU work, from forward to backward, of the selected event (ASCII: o->)"),
    ("samples", "a metric sampled on the GPU: the mean in each cell, of 100 % or of its largest value"),
    ("delay", "from the end of the call that launched GPU work to its start"),
    ("slack", "how much longer GPU work could take before a step of the replay takes longer"),
    ("idle", "no stream of the GPU works; Enter and i say what the host did during that time"),
)
"""(sign, meaning) for the help page."""


@lru_cache(maxsize=8192)
def shown_name(source: str, kind: str, name: str, *, ascii: bool) -> str:
    """Returns a name as a slice shows it: short and printable."""
    if source == "device" and kind == "kernel":
        name = short_name(name)
    elif kind == "python":
        name = fitting.short_function(name)
    elif kind == "module":
        name = name.removeprefix("nn.Module: ")
    elif source == "path":
        name = _on_path(kind, name)
    return fitting.printable(name, ascii=ascii)


def _on_path(kind: str, name: str) -> str:
    """What a piece of the critical path is called; the gap before a kernel is not the kernel."""
    if not name:
        return "nothing recorded"
    if kind in ("kernel", "communication", "launch", "gap"):
        name = short_name(name)
    elif kind in ("python", "loader"):
        name = fitting.short_function(name)
    return {"launch": f"launch of {name}", "gap": f"gap before {name}", "return": f"return of {name}"}.get(kind, name)


def gantt_lane(
    lane: Lane, busy: Sequence[float], events: Iterable[tuple[str, float, float]], *, style: str = "", ascii: bool
) -> GanttLane:
    """Returns a lane of a step as `gantt` draws it.

    Args:
        lane: which lane.
        busy: for each of some equal parts, the share of time in which something runs, 0 to 1.
        events: names of long events, with their begin and end as shares of the step.
        style: of its cells.
        ascii: no characters outside ASCII.
    """
    kind = "kernel" if lane.source == "device" else "python"
    named = [(shown_name(lane.source, kind, name, ascii=ascii), begin, end) for name, begin, end in events]
    return GanttLane(fitting.printable(lane_title(lane, short=True), ascii=ascii), busy, style, named)


def row_runs(timeline: Timeline, lane: int, depth: int, edges: Ints, chosen: int, *, ascii: bool) -> list[Run]:
    """Returns one row between these edges, one character per cell.

    Args:
        timeline: the trace.
        lane: index of the lane.
        depth: the lane's row.
        edges: the starts of the cells and the end of the last one, ns, ascending.
        chosen: position of the event that is selected in this row, or -1.
        ascii: no characters outside ASCII.
    """
    row = timeline.lanes[lane].rows[depth]
    if curves := timeline.lanes[lane].curves:
        return _curve_runs(curves[depth], edges, int(row.start[chosen]) if chosen != NONE else None, ascii=ascii)
    timeline, owner = timeline.owner(lane)
    looks = ON_PATH if owner.source == "path" else LOOKS
    cells = row.cells(edges)
    winner = cells.winner
    bounds = [0, *(np.flatnonzero(np.diff(winner)) + 1).tolist(), winner.size]
    firsts = winner[bounds[:-1]].tolist()
    events = row.events[np.maximum(winner[bounds[:-1]], 0)].tolist()
    kinds = timeline.kinds(owner.source, events)
    wide = [n for n, w in enumerate(firsts) if w != NONE and bounds[n + 1] - bounds[n] >= SLICE]
    names = dict(zip(wide, timeline.names(owner.source, [events[n] for n in wide]), strict=True)) if wide else {}
    width = np.maximum(np.diff(edges), 1)
    eighths = np.clip(np.ceil(cells.busy * 8.0 / width), 1, 8).astype(np.int64).tolist()
    bars = [(ASCII_EIGHTHS if ascii else EIGHTHS)[part] for part in eighths]
    nothing = ("_" if ascii else "·") if owner.kind == "stream" and not depth else " "
    runs: list[Run] = []
    for number, position in enumerate(firsts):
        begin, end = bounds[number], bounds[number + 1]
        look = looks[kinds[number]]
        if position == NONE:
            text, style = nothing * (end - begin), "gap"
        elif number in names:
            name = shown_name(owner.source, kinds[number], names[number], ascii=ascii)
            if owner.source == "idle":
                name = _idle_name(names[number], row.end(position) - int(row.start[position]), end - begin, ascii=ascii)
            text, style = _slice(name, end - begin, look, ascii=ascii), f"{look.style}-slice"
        elif look.letter and kinds[number] != owner.usual:
            capital = look.letter if owner.source == "path" else look.letter.upper()
            text = "".join(capital if part >= 4 else look.letter for part in eighths[begin:end])
            style = look.style
        else:
            text, style = "".join(bars[begin:end]), look.style
        if position == chosen != NONE:
            style = "selected"
        if runs and runs[-1].style == style != "selected":
            runs[-1] = Run(runs[-1].text + text, style)
        else:
            runs.append(Run(text, style))
    if chosen != NONE and chosen not in firsts:
        _mark(runs, int(np.searchsorted(edges, row.start[chosen], side="right")) - 1, winner.size, ascii=ascii)
    return runs


def _curve_runs(curve: Curve, edges: Ints, chosen: int | None, *, ascii: bool) -> list[Run]:
    """A curve, as high as the mean in each cell; the cell with the time of the chosen sample is marked."""
    means, top = curve.means(edges), curve.top or 1.0
    is_value = ~np.isnan(means)
    eighths = np.clip(np.ceil(np.where(is_value, means, 0.0) * 8 / top), 0, 8).astype(np.int64)
    signs, nothing = (ASCII_EIGHTHS, "_") if ascii else (EIGHTHS, "·")
    text = "".join(
        (signs[part] if part else nothing) if there else " "
        for part, there in zip(eighths.tolist(), is_value.tolist(), strict=True)
    )
    runs = [Run(text, "range")]
    if chosen is not None:
        _mark(runs, int(np.searchsorted(edges, chosen, side="right")) - 1, len(text), ascii=ascii)
    return runs


def _slice(name: str, width: int, look: Look, *, ascii: bool) -> str:
    edge, fill = ("|", look.ascii_fill) if ascii else ("▏", look.fill)
    room = width - 1
    if room < 4 and fitting.cell_width(name) > room:
        # of three letters nobody can guess a name
        return edge + fill * room
    text = fitting.fit(name, room, ascii=ascii)
    rest = room - fitting.cell_width(text)
    if not text:
        return edge + fill * room
    return edge + text + (" " if rest > 1 else fill * rest) + fill * max(rest - 1, 0) * (rest > 1)


def _idle_name(cause: str, duration: int, width: int, *, ascii: bool) -> str:
    lasting = number_format.format_ns(duration, ascii=ascii)
    for name in (f"idle {lasting} {IDLE_WORDS.get(cause, '')}".rstrip(), f"idle {lasting}", lasting, "idle"):
        if len(name) < width:
            return name
    return ""


def _mark(runs: list[Run], at: int, columns: int, *, ascii: bool) -> None:
    """Marks an event that others hide."""
    if not 0 <= at < columns:
        return
    for number, run in enumerate(runs):
        if at < len(run.text):
            parts = [
                Run(run.text[:at], run.style),
                Run("*" if ascii else "◆", "selected"),
                Run(run.text[at + 1 :], run.style),
            ]
            runs[number : number + 1] = [part for part in parts if part.text]
            return
        at -= len(run.text)


class End(NamedTuple):
    """One end of an arrow."""

    line: int
    """Of the screen; the rows are lines 1 and up, and it may lie above or below them."""
    column: int
    """Of the axis; may lie outside of it."""


class _ArrowSigns(NamedTuple):
    up: str
    down: str
    left: str
    right: str
    start: str
    vertical: str
    horizontal: str
    corners: str
    """Of a line that turns: left-up, right-up, left-down, right-down, by the sides that it joins."""


_ARROW = _ArrowSigns("▲", "▼", "◀", "▶", "●", "│", "─", "╯╰╮╭")
_ASCII_ARROW = _ArrowSigns("^", "v", "<", ">", "o", "|", "-", "++++")


def arrow_cells(tail: End, head: End, rows: int, columns: int, *, ascii: bool = False) -> dict[tuple[int, int], str]:
    """Returns the characters of an arrow by line and column.

    The head stands on the first cell of what the arrow leads to. Where an end is out of sight, the line ends with a
    head at the edge that it crosses. An arrow within one row, or with both ends beyond the same edge, is not drawn.

    Args:
        tail: where it starts.
        head: where it leads.
        rows: rows in sight, which are lines 1 to `rows`.
        columns: of the axis.
        ascii: no characters outside ASCII.
    """
    signs = _ASCII_ARROW if ascii else _ARROW
    beyond = [(-1 if end.column < 0 else 1 if end.column >= columns else 0) for end in (tail, head)]
    above = [(-1 if end.line < 1 else 1 if end.line > rows else 0) for end in (tail, head)]
    if tail.line == head.line or (beyond[0] and beyond[0] == beyond[1]) or (above[0] and above[0] == above[1]):
        return {}
    down = head.line > tail.line
    step = 1 if down else -1
    begin, end = min(max(tail.column, 0), columns - 1), min(max(head.column, 0), columns - 1)
    bend = head.line - step
    cells: dict[tuple[int, int], str] = {}
    for line in range(tail.line + step, bend, step):
        cells[line, begin] = signs.vertical
    if bend != tail.line:
        if begin == end:
            cells[bend, begin] = signs.vertical
        else:
            for column in range(min(begin, end) + 1, max(begin, end)):
                cells[bend, column] = signs.horizontal
            right = end > begin
            cells[bend, begin] = signs.corners[(2 if not down else 0) + right]
            cells[bend, end] = signs.corners[(0 if not down else 2) + (not right)]
            if beyond[1]:
                cells[bend, end] = signs.right if right else signs.left
    if not beyond[0]:
        cells[tail.line, begin] = signs.start
    elif bend != tail.line:
        cells[tail.line + step, begin] = signs.left if beyond[0] < 0 else signs.right
    if not beyond[1]:
        cells[head.line, end] = signs.down if down else signs.up
    shown = {at: sign for at, sign in cells.items() if 1 <= at[0] <= rows}
    if above[1] and shown:
        # the head is above or below the rows in sight: the line ends with one at their edge
        edge = rows if down else 1
        for line, column in [at for at in shown if at[0] == edge and at in cells]:
            shown[line, column] = signs.down if down else signs.up
    return shown
