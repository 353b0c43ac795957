"""Draws a stacked bar for each step, all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tracetui.analysis.base.number_format import format_ns
from tracetui.app.charts.cells import Run, texts
from tracetui.app.charts.drawing import LETTER, WIDTH, Drawing, swatches
from tracetui.app.text import fitting

GROUPS = (
    ("GPU work", "█", "#", ("kernel", "memcpy", "memset"), "gpu"),
    ("communication", "▓", "=", ("communication",), "communication"),
    ("data loader", "▒", "%", ("dataloader",), "loader"),
    ("runtime", "░", "+", ("runtime",), "runtime"),
    ("CPU, other", "·", ".", ("cpu_exec", "other"), "cpu"),
)
"""The parts of a step's bar: title, sign, ASCII sign, the categories that it sums, style key."""
LEAST_WIDTH = 40
SLOW, SLOW_SIGN = 1.5, "!"
"""A step is marked from this multiple of the median; such a step is most often warm-up."""
FEWEST_TO_MARK = 3
_LABEL, _TIME = 8, 10


class Step(NamedTuple):
    """One step."""

    label: str
    lasting: float
    """ns."""
    parts: Sequence[float]
    """ns for each of `GROUPS`."""
    slow: bool = False
    """Whether it takes much longer than the others."""
    phase: str | None = None
    """Of an inference server's iteration: only those of its phase are its like."""


def marked(steps: Sequence[Step]) -> list[Step]:
    """Returns the steps, with those marked that take much longer than the median of their like."""
    alike: dict[str | None, list[float]] = {}
    for step in steps:
        alike.setdefault(step.phase, []).append(step.lasting)
    limits = {key: SLOW * _median(all_of) for key, all_of in alike.items() if len(all_of) >= FEWEST_TO_MARK}
    return [step._replace(slow=step.lasting > limits.get(step.phase, step.lasting)) for step in steps]


def legend(steps: Sequence[Step], *, ascii: bool = False) -> list[tuple[str, str, str]]:
    """Returns (sign, style, meaning) of the groups that any step has, and of the mark for slow steps."""
    signs = [
        (ascii_sign if ascii else sign, style, title)
        for number, (title, sign, ascii_sign, _, style) in enumerate(GROUPS)
        if any(step.parts[number] for step in steps)
    ]
    if any(step.slow for step in steps):
        signs.append((SLOW_SIGN, "warn", f"over {SLOW:g} {'x' if ascii else '×'} median"))
    return signs


def step_runs(steps: Sequence[Step], width: int, *, longest: float = 0.0, ascii: bool = False) -> list[list[Run]]:
    """A line of `width` columns per step: label, bar and duration; `longest` ns, or the longest step, fill a bar."""
    longest = max(longest, *(step.lasting for step in steps), 1.0) if steps else 1.0
    room = max(width - _LABEL - _TIME - 2, 10)
    lines = []
    for step in steps:
        bar = [
            Run((ascii_sign if ascii else sign) * cells, style)
            for (_, sign, ascii_sign, _, style), cells in zip(GROUPS, share_out(step.parts, longest, room), strict=True)
            if cells
        ]
        space = room - sum(len(run.text) for run in bar)
        time = format_ns(step.lasting, ascii=ascii)
        mark = Run(SLOW_SIGN, "warn") if step.slow else Run(" ", "")
        lines.append([Run(f"{step.label:>{_LABEL - 1}}", ""), mark, *bar, Run(f"{'':{space}}{time:>{_TIME}}", "")])
    return lines


def step_bars(steps: Sequence[Step], width: int, *, ascii: bool = False) -> list[str]:
    """Returns the legend, then the steps, as rows of text; none if there is no room."""
    if width < LEAST_WIDTH or not steps:
        return []
    signs = "  ".join(f"{sign} {title}" for sign, _, title in legend(steps, ascii=ascii))
    heading = fitting.fit(" " * _LABEL + signs, width, ascii=ascii)
    return [heading, *texts(step_runs(steps, width, ascii=ascii))]


def share_out(parts: Sequence[float], longest: float, width: int) -> list[int]:
    """Returns cells for each part, rounded by largest remainder, so that they add up to their sum's share."""
    ideal = [part / longest * width for part in parts]
    cells = [int(value) for value in ideal]
    missing = round(sum(ideal)) - sum(cells)
    for place in sorted(range(len(parts)), key=lambda i: cells[i] - ideal[i])[:missing]:
        cells[place] += 1
    return cells


def _median(values: list[float]) -> float:
    """Computes what `statistics.median` does, which takes longer to import than all charts."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


LABELS, TIMES, ROW, BAR = 64, 88, 22, 15


def steps_svg(steps: Sequence[Step], about: str, *, ascii: bool = False) -> str:
    """A bar for each step on one scale: where its time goes."""
    drawing = Drawing(26 + ROW * len(steps), about)
    signs = legend(steps, ascii=ascii)
    swatches(drawing, LABELS, 12, [(style, title) for _, style, title in signs if style != "warn"])
    for sign, style, meaning in signs:
        if style == "warn":
            drawing.text(WIDTH, 12, f"{sign} {meaning}", anchor="end")
    longest = max(step.lasting for step in steps) or 1.0
    room = WIDTH - LABELS - TIMES
    for row, step in enumerate(steps):
        y = 22 + ROW * row
        drawing.text(LABELS - 8, y + 12, step.label + (SLOW_SIGN if step.slow else ""), anchor="end", room=LABELS - 8)
        x: float = LABELS
        for part, (title, _, _, _, style) in zip(step.parts, GROUPS, strict=True):
            wide = part / longest * room
            if wide <= 0:
                continue
            time = format_ns(part, ascii=ascii)
            drawing.rect(x, y, wide, BAR, style, f"{title}: {time}")
            if wide > LETTER * (len(time) + 2):
                drawing.text(x + 5, y + 11.5, time, style="inside")
            x += wide
        drawing.text(WIDTH, y + 12, format_ns(step.lasting, ascii=ascii), anchor="end")
    return drawing.svg()
