"""The tables that compare captures."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracetui.analysis.base.number_format import UNKNOWN, format_count, format_share
from tracetui.analysis.captures.model import MEASURES, OOM, CaptureRow, Grid, grid_of
from tracetui.analysis.captures.names import Value, spelled
from tracetui.app.reports.content.side_by_side import PER_TABLE, across
from tracetui.app.reports.layout import GAP, WIDTH, Layout, Shown
from tracetui.app.reports.parts import Block, Part, Sentences
from tracetui.app.text.fitting import cell_width

STEP_ROLES = ("forward", "loss", "backward", "optimizer")
GRID_ROLES = ("step", "forward", "backward", "optimizer", "attention", "softmax", "matmul", "evaluation")
SHOWN_CATEGORIES, SHOWN_ROLES = 5, 4
LEAST_CELL, LEFT_OF_CELLS = 8, 25
"""Width of a time, and of the columns at its left."""
TOPS_ACROSS = 4
"""Captures beside each other where kinds stand with the times."""
SHORT = {"elementwise": "elem.", "optimizer": "optim.", "communication": "comm.", "attention": "attn."}
"""Titles of categories where the line is narrow."""
EACH = tuple(zip(MEASURES, ("CPU", "projected", "GPU work"), strict=True))
"""Means of one range: how long it was open, from first start to last end of what it launched, and that work's sum."""
EACH_BASE = "mean of one range; GPU: work launched while it was open, from first start to last end, and its sum"


def capture_parts(found: Sequence[CaptureRow], layout: Layout) -> Iterator[Part]:
    """The tables that these captures can fill, the overview first; then what could not be read."""
    yield from _tables(found, layout)
    yield Sentences(tuple(_ended(found)))
    unread = [row for row in found if row.problem is not None and not row.out_of_memory]
    yield Sentences(tuple(f"Not read: {row.problem}" for row in unread))


def matrix_parts(found: Sequence[CaptureRow], layout: Layout) -> Iterator[Part]:
    """Only the phases as a matrix: a grid each of two axes, one table of one."""
    known = [row for row in found if row.problem is None or row.out_of_memory]
    yield from _matrix(known, layout)
    yield Sentences(tuple(_ended(found)))


def _matrix(known: Sequence[CaptureRow], layout: Layout) -> Iterator[Block]:
    grid = grid_of(known)
    if grid is not None and not grid.down:
        yield from _one_axis(grid, layout)
    elif grid is not None and len(grid.down) == 1:
        for role in GRID_ROLES:
            if _is_timed(known, role):
                yield from _grid(grid, role, layout)


def _one_axis(grid: Grid, layout: Layout) -> Iterator[Block]:
    """All phases below each other, a column per capture, where the captures differ along one axis."""
    captures = list(grid.captures.values())
    roles = [role for role in GRID_ROLES if _is_timed(captures, role)]
    if not roles:
        return
    told = [pair for pair in EACH if any(row.of_phase(role, pair[0]) is not None for row in captures for role in roles)]
    titles = grid.titles
    widest = max(LEAST_CELL, *map(cell_width, titles))
    most = max(1, min(PER_TABLE, (WIDTH - LEFT_OF_CELLS) // (widest + len(GAP))))
    cells = [
        [role if key == told[0][0] else "", what, *(_time(grid, (at,), role, key, layout) for at in grid.columns)]
        for role in roles
        for key, what in told
    ]
    columns = (Shown("phase", right=False), Shown("", right=False), *map(Shown, titles))
    yield from across(Block("Ranges", note=EACH_BASE, columns=columns, cells=cells), range(2, len(columns)), most)


def _ended(found: Iterable[CaptureRow]) -> Iterator[str]:
    """What ran out of memory, and what the log or run.json says of it."""
    for row in found:
        if row.out_of_memory:
            cut = f"; cut short: {', '.join(row.cut)}" if row.cut else ""
            yield f"OOM: {row.label} ran out of memory: {row.out_of_memory}{cut}"


def _time(grid: Grid, place: tuple[Value, ...], role: str, key: str, layout: Layout) -> str:
    """A phase's time in a cell; of a phase that memory ran out in or before, that."""
    row = grid.captures.get(place)
    return (
        OOM if row is not None and row.ended_in(role) else layout.time(None if row is None else row.of_phase(role, key))
    )


def rows_to_plot(found: Sequence[CaptureRow]) -> Iterator[str]:
    """Names the command that prints the same as rows, where ranges have phases."""
    if any(row.phases for row in found):
        folder = os.path.commonpath([Path(row.path).parent for row in found])
        yield f"As rows that can be plotted: tracetui sweep {shlex.quote(folder)} --section phases --format csv"


def _tables(found: Sequence[CaptureRow], layout: Layout) -> Iterator[Block]:
    read = [row for row in found if row.problem is None]
    shown = read[: layout.limit]
    yield _overview(found, layout)
    known = [row for row in found if row.problem is None or row.out_of_memory]
    grid = grid_of(known)
    if matrix := list(_matrix(known, layout)):
        yield from matrix
    elif roles := [role for role in GRID_ROLES if _is_timed(shown, role)]:
        yield _ranges(shown, len(read), roles[:SHOWN_ROLES], layout)
    if steps := [row for row in shown if row.in_steps]:
        yield _steps(steps, len(read), layout)
    if any(row.gpu_us is not None for row in shown):
        yield _categories(shown, len(read), layout)
    if grid is not None and len(grid.down) == 1:
        yield from _top_grid(grid, layout)
    if any(row.top_kernel for row in shown):
        yield _top(shown, len(read), layout)
    if any(role in row.phases for row in shown for role in ("softmax", "matmul")):
        yield _attention(shown, len(read), layout)


def _is_timed(found: Iterable[CaptureRow], role: str) -> bool:
    """Returns whether any capture has times of such a range; Nsight Compute records ranges without times."""
    return any(row.of_phase(role, key) is not None for row in found for key, _ in EACH)


def _overview(found: Sequence[CaptureRow], layout: Layout) -> Block:
    cells = []
    for row in found[: layout.limit]:
        top = row.top_kernel
        cells.append(
            [
                row.label,
                layout.time(row.average_step_us),
                layout.time(row.wall_us),
                layout.time(row.gpu_us_per_step if row.steps else row.gpu_us),
                format_share(row.busy_percent),
                _count(row.kernels_per_step if row.steps else row.kernels),
                OOM if row.out_of_memory else "not read" if row.problem else top.short_name if top else UNKNOWN,
            ]
        )
    columns = (
        Shown("capture", right=False, share=3), Shown("step"), Shown("whole file"), Shown("GPU work"),
        Shown("busy%"), Shown("kernels"), Shown("top kernel", right=False, share=2),
    )  # fmt: skip
    base = "average step; GPU work (summed), busy and kernels are of it, else of the file"
    if not any(row.steps for row in found):
        base = "GPU work: summed; busy: share of the file"
    return Block("Captures", note=base, columns=columns, cells=cells, whole=len(found))


def _count(many: float | None) -> str:
    """Kernels of an average step: with a fraction where steps differ."""
    return format_count(None if many is None else int(many)) if many is None or many == int(many) else f"{many:,.1f}"


def _grid(grid: Grid, role: str, layout: Layout) -> Iterator[Block]:
    cells = [
        [spelled(grid.down[0], *place), what, *(_time(grid, (*place, at), role, key, layout) for at in grid.columns)]
        for place in grid.rows
        for key, what in EACH
    ]
    columns = (Shown(grid.down[0], right=False, share=1), Shown("", right=False), *map(Shown, grid.titles))
    names = {name for row in grid.captures.values() if role in row.phases for name in row.phases[role].names}
    base = f"{EACH_BASE}; ranges: {', '.join(sorted(names))}"
    whole = Block(role.capitalize(), note=base, columns=columns, cells=cells)
    for block in across(whole, range(2, len(columns))):
        known = [row for row in block.cells if row[1] == EACH[0][1] or not set(row[2:]) <= {UNKNOWN, OOM}]
        yield replace(block, cells=known)


def _of_captures(heading: str, base: str, titles: Iterable[str], cells: list[list[str]], **more: Any) -> Block:
    """A table with rows of several kinds for each capture."""
    columns = (Shown("capture", right=False, share=1), Shown("", right=False), *map(Shown, titles))
    return Block(heading, note=base, columns=columns, cells=cells, **more)


def _ranges(shown: Sequence[CaptureRow], whole: int, roles: Sequence[str], layout: Layout) -> Block:
    cells = [
        [row.label, what, *(layout.time(row.of_phase(role, key)) for role in roles)]
        for row in shown
        for key, what in EACH
        if any(other.of_phase(role, key) is not None for other in shown for role in roles)
    ]
    return _of_captures("Ranges", EACH_BASE, roles, cells, shown=len(shown), whole=whole)


def _steps(shown: Sequence[CaptureRow], whole: int, layout: Layout) -> Block:
    """Returns, per step, the part of a phase inside steps; a forward pass outside of steps is not counted."""
    roles = [role for role in STEP_ROLES if any(role in row.phases for row in shown)]
    cells = []
    for row in shown:
        total = row.in_steps
        if total is None:
            continue
        inside = [row.phases[role].in_steps if role in row.phases else None for role in roles]
        for what, key in (("CPU", "host"), ("GPU", "launched")):
            if (us := getattr(total, f"{key}_us")) is not None:
                spent = [getattr(part, f"{key}_us", None) for part in inside]
                each = [None if part is None else part / total.steps for part in spent]
                cells.append([row.label, what, layout.time(us / total.steps), *map(layout.time, each)])
                shares = [getattr(part, f"{key}_percent", None) for part in inside]
                cells.append(["", f"% of {what}", "", *map(format_share, shares)])
    base = "per step, what lies inside steps; CPU: of the step's time, GPU: of the work launched in it"
    return _of_captures("Steps by phase", base, ("step", *roles), cells, shown=len(shown), whole=whole)


def _categories(shown: Sequence[CaptureRow], whole: int, layout: Layout) -> Block:
    spent: dict[str, float] = {}
    for row in shown:
        for share in row.categories:
            spent[share.category] = spent.get(share.category, 0) + share.us
    names = sorted(spent, key=lambda name: -spent[name])[:SHOWN_CATEGORIES]
    cells = []
    for row in shown:
        parts = [("all", row.gpu_us, row.categories)]
        for role in ("forward", "backward", "optimizer"):
            if (phase := row.phases.get(role)) is not None:
                parts.append((role, phase.launched_us, phase.by_category))
        for what, total, shares in parts:
            percents = {share.category: share.percent for share in shares}
            rest = None if not shares else sum(percent or 0 for name, percent in percents.items() if name not in names)
            known = [percents.get(name, 0.0 if shares else None) for name in names]
            name = row.label if what == "all" else ""
            cells.append([name, what, layout.time(total), *map(format_share, known), format_share(rest)])
    titles = ("GPU work", *(f"{SHORT.get(name, name)}%" for name in names), "rest%")
    base = "share of the GPU time at its left: of everything, of what was launched during a phase"
    return _of_captures("GPU time by category", base, titles, cells, shown=len(shown), whole=whole)


def _top_grid(grid: Grid, layout: Layout) -> Iterator[Block]:
    def cell(row: CaptureRow | None) -> str:
        top = row.top_kernel if row else None
        if row is not None and row.out_of_memory and not top:
            return OOM
        return f"{SHORT.get(top.category, top.category)} {layout.time(top.total_us)}" if top else UNKNOWN

    cells = [
        [spelled(grid.down[0], value), *(cell(grid.captures.get((value, other))) for other in grid.columns)]
        for (value,) in grid.rows
    ]
    columns = (Shown(grid.down[0], right=False, share=1), *map(Shown, grid.titles))
    block = Block("Kind of the top kernel", note="with its time", columns=columns, cells=cells)
    return across(block, range(1, len(columns)), TOPS_ACROSS)


def _top(shown: Sequence[CaptureRow], whole: int, layout: Layout) -> Block:
    cells = [
        [
            row.label,
            top.short_name,
            top.category,
            layout.time(top.total_us),
            format_share(top.percent),
            format_count(top.calls),
            layout.time(top.mean_us),
        ]
        for row in shown
        if (top := row.top_kernel)
    ]
    columns = (
        Shown("capture", right=False, share=2), Shown("top kernel", right=False, share=3),
        Shown("kind", right=False), Shown("time"), Shown("%"), Shown("calls"), Shown("mean"),
    )  # fmt: skip
    return Block("Top kernel of each", note="share of GPU time", columns=columns, cells=cells, whole=whole)


def _attention(shown: Sequence[CaptureRow], whole: int, layout: Layout) -> Block:
    cells = []
    for row in shown:
        kernels = next((share.us for share in row.categories if share.category == "softmax"), None)
        for key, what in (("host_total_us", "CPU"), ("launched_us", "GPU")):
            softmax, matmul = (row.of_phase(role, key) for role in ("softmax", "matmul"))
            ratio = softmax / matmul if softmax is not None and matmul else None
            cells.append(
                [
                    row.label,
                    what,
                    layout.time(softmax),
                    layout.time(matmul),
                    UNKNOWN if ratio is None else f"{ratio:.3f}",
                    layout.time(kernels) if what == "GPU" else "",
                ]
            )
    titles = ("softmax", "matmul", "ratio", "softmax kernels")
    base = "ranges, all instances; GPU: what was launched in them; softmax kernels: all of the capture"
    return _of_captures("Softmax and matrix products", base, titles, cells, shown=len(shown), whole=whole)
