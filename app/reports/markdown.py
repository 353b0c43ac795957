"""A report as GitHub-flavoured Markdown: the same parts, and the same cells, as in text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracetui.app.reports.layout import Layout, Shown
from tracetui.app.reports.open_command import spelled
from tracetui.app.reports.parts import Block, Chart, Command, Facts, FindingList, Part, Sentences, Title, rows_shown
from tracetui.app.text.escaping import code, fenced, plain
from tracetui.app.text.fitting import to_ascii


def markdown(parts: Iterable[Part], layout: Layout) -> str:
    """The whole report; ends in one line break."""
    lines: list[str] = []
    for part in parts:
        lines += _lines(part, layout)
    text = "\n".join(lines).rstrip("\n") + "\n"
    return to_ascii(text) if layout.ascii else text


def _lines(part: Part, layout: Layout) -> list[str]:
    if isinstance(part, Title):
        return [f"{'#' * part.level} {plain(part.text)}", ""]
    if isinstance(part, Facts):
        return [*(f"- {plain(title)}: {plain(said)}" for title, said in part.rows), ""]
    if isinstance(part, FindingList):
        from tracetui.app.reports.content.findings import brief_markdown, finding_markdown

        if part.judged is None:
            return []
        if part.brief and part.judged.findings:
            return brief_markdown(part, part.judged, layout)
        return finding_markdown(part.judged, part.base, layout)
    if isinstance(part, Sentences):
        return _sentences(part)
    if isinstance(part, Command):
        return [f"{plain(part.said)} {code(spelled(part.words))}", ""]
    return _block(part, layout)


def _sentences(part: Sentences) -> list[str]:
    heading = [f"{plain(part.heading)}:", ""] if part.heading else []
    if part.bullets or part.heading:
        if part.boxes:
            # a box is ticked or not; what is not says why in its text
            marks = [
                "[x] " if mark == "[x]" else "[ ] " + ("**failed:** " if mark == "[!]" else "") for mark in part.marks
            ]
        else:
            marks = [f"**{plain(mark)}** " if mark else "" for mark in part.marks] or [""] * len(part.texts)
        items = [f"- {mark}{plain(said)}" for mark, said in zip(marks, part.texts, strict=True)]
        return [*heading, *items, ""] if items else []
    return [line for said in part.texts for line in (plain(said), "")]


def _block(block: Block, layout: Layout) -> list[str]:
    lines = [line for said in block.before for line in (plain(said), "")]
    picture = _picture(block.chart, layout)
    if block.cells:
        heading = layout.heading(block.heading, block.base, rows_shown(block), block.whole)
        lines += [f"### {plain(heading)}", "", *([plain(block.note), ""] if block.note else [])]
        lines += picture if block.chart_first else []
        lines += [*_table(block), ""]
    for said in block.after:
        lines += [plain(said), ""]
    return lines + ([] if block.chart_first and block.cells else picture)


def _table(block: Block) -> list[str]:
    kept = [n for n, column in enumerate(block.columns) if not column.is_bar]
    columns = [block.columns[n] for n in kept]
    depths = block.depths or (0,) * len(block.cells)
    rows = [
        [_cell(row[n], columns[at], depth if at == len(kept) - 1 else 0) for at, n in enumerate(kept)]
        for row, depth in zip(block.cells, depths, strict=True)
    ]
    rule = ["--:" if column.right else ":--" for column in columns]
    return [_line([plain(column.title) for column in columns]), _line(rule), *map(_line, rows)]


def _cell(text: str, column: Shown, depth: int) -> str:
    return "· " * depth + (code(text) if column.is_name and text else plain(text))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _picture(chart: Chart | None, layout: Layout) -> list[str]:
    if chart is None or not chart.rows or not layout.charts:
        return []
    return [*fenced([*([chart.title] if chart.title else []), *(row.rstrip() for row in chart.rows)]), ""]
