"""The table of captures in the text report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.reports.captures_tables import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.text_table import Page


def capture_lines(found: Sequence[Json], page: Page) -> list[str]:
    """Every table that compares these captures, each with its base below the title."""
    lines: list[str] = []
    for table in tables(found, page):
        lines += [page.heading(table.title, "", table.shown, table.whole), *page.paragraph(table.base, indent="  ")]
        lines += [*page.table(table.columns, table.cells), ""]
    for row in found:
        if row["problem"] is not None:
            lines += [*page.paragraph(f"Not read: {row['problem']}"), ""]
    return lines
