"""Steps as stacked bars, one below the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import format_ns
from tracetui.app.charts.steps import GROUPS, SLOW, SLOW_SIGN, legend
from tracetui.app.charts.svg.drawing import LETTER, WIDTH, Drawing, swatches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.app.charts.steps import Step

LABEL, TIME, ROW, BAR = 64, 88, 22, 15


def steps_svg(steps: Sequence[Step], about: str, *, ascii: bool = False) -> str:
    """A bar for each step on one scale: where its time goes."""
    drawing = Drawing(26 + ROW * len(steps), about)
    slow = any(step.slow for step in steps)
    parts = [(style, title) for _, style, title in legend(steps) if style != "warn"]
    swatches(drawing, LABEL, 12, parts)
    if slow:
        marks = f"{SLOW_SIGN} over {SLOW:g} {'x' if ascii else '×'} median"
        drawing.text(WIDTH, 12, marks, anchor="end")
    longest = max(step.lasting for step in steps) or 1.0
    room = WIDTH - LABEL - TIME
    for row, step in enumerate(steps):
        y = 22 + ROW * row
        drawing.text(LABEL - 8, y + 12, step.label + (SLOW_SIGN if step.slow else ""), anchor="end", room=LABEL - 8)
        x: float = LABEL
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
