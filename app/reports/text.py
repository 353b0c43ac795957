"""Writes a report as plain text of at most 80 columns, fit for an issue tracker."""

from __future__ import annotations

from collections.abc import Iterable

from tracetui.app.reports.layout import WIDTH, Layout
from tracetui.app.reports.open_command import lines as command_lines
from tracetui.app.reports.parts import Block, Chart, Command, Facts, FindingList, Part, Sentences, Title, rows_shown
from tracetui.app.text.fitting import cell_width, fit


def text(parts: Iterable[Part], layout: Layout) -> str:
    """The whole report, a blank line between its parts; ends in one line break."""
    lines: list[str] = []
    for part in parts:
        if laid := _lines(part, layout):
            lines += [*([""] if lines else []), *laid]
    return "\n".join(line.rstrip() for line in lines).rstrip("\n") + "\n"


def _lines(part: Part, layout: Layout) -> list[str]:
    if isinstance(part, Title):
        line = fit(layout.text(part.text), WIDTH, ascii=layout.ascii)
        under = "-" if part.level == 1 else "~"
        return [line, under * cell_width(line)] if part.level == 1 or part.in_text else []
    if isinstance(part, Facts):
        width = max((len(title) for title, _ in part.rows), default=0)
        return [
            line for title, said in part.rows for line in layout.field(title, said, width=width + 1 if width < 4 else 8)
        ]
    if isinstance(part, FindingList):
        from tracetui.app.reports.content.findings import brief_lines, finding_lines

        if part.judged is None:
            return []
        if part.brief:
            return brief_lines(part, part.judged, layout)
        return finding_lines(part.judged, part.base, layout, whole=part.whole)
    if isinstance(part, Sentences):
        return _sentences(part, layout)
    if isinstance(part, Command):
        return [layout.text(part.said), *(f"  {layout.text(line)}" for line in command_lines(part.words, WIDTH - 2))]
    return _block(part, layout)


def _sentences(part: Sentences, layout: Layout) -> list[str]:
    lines = [layout.text(part.heading)] if part.heading else []
    marks = part.marks or ("-",) * len(part.texts)
    width = max((cell_width(mark) for mark in marks), default=1) + 1
    for mark, said in zip(marks, part.texts, strict=True):
        if part.bullets:
            lines += layout.field(mark, said, width=width)
        else:
            lines += layout.paragraph(said, indent="  " if part.heading else "")
    return lines


def _block(block: Block, layout: Layout) -> list[str]:
    lines = [line for said in block.before for line in layout.paragraph(said)]
    picture = _picture(block.chart, layout)
    if block.cells:
        lines += [""] if lines else []
        heading = layout.heading(block.heading, block.base, rows_shown(block), block.whole)
        lines.append(fit(layout.text(heading), WIDTH, ascii=layout.ascii))
        lines += layout.paragraph(block.note, indent="  ") if block.note else []
        lines += picture if block.chart_first else []
        depths = block.depths or (0,) * len(block.cells)
        cells = [[*row[:-1], "  " * depth + row[-1]] for row, depth in zip(block.cells, depths, strict=True)]
        kept = [number for number, column in enumerate(block.columns) if not column.wide]
        cells = [[row[number] for number in kept] for row in cells]
        lines += layout.table([block.columns[number] for number in kept], cells, block.marks)
    for said in block.after:
        lines += layout.paragraph(said, indent="  " if block.cells else "")
    if picture and not (block.chart_first and block.cells):
        lines += [*([""] if lines else []), *picture]
    return lines


def _picture(chart: Chart | None, layout: Layout) -> list[str]:
    """A chart's title, its rows two columns to the right; nothing where there is nothing to draw."""
    if chart is None or not chart.rows or not layout.charts:
        return []
    return [*([layout.text(chart.title)] if chart.title else []), *(f"  {row}".rstrip() for row in chart.rows)]
