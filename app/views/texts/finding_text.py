"""A finding as text for the screen: its title, then what it costs, why, and what to try, each under its label."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from rich.text import Text

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.app.reports.finding_words import LABEL_WIDTH, headline, parts, whole_of
from tracetui.app.text.fitting import pad, printable, wrapped

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json


def finding_text(row: Json, width: int, base: str, *, comment: str = "", ascii: bool = False) -> Text:
    """Everything about a finding, in lines of at most `width` columns.

    Args:
        row: `analysis.report_findings.finding_row`; ``aside`` in it says why it was set aside.
        width: columns.
        base: of the numbers, `Selection.describe`.
        comment: what was written about it.
        ascii: no characters outside ASCII.
    """
    text = Text()
    _add(text, "", headline(row), width, ascii=ascii, style="bold")
    if comment:
        _add(text, "Comment", comment, width, ascii=ascii)
    aside = [("Aside", row["aside"])] if row.get("aside") else []
    for label, said in [*aside, *parts(row, whole_of(base), ascii=ascii)]:
        _add(text, label, said, width, ascii=ascii)
    if not row["reference"]:
        _add(text, "See", f"tracetui rules {row['id']}", width, ascii=ascii)
    text.rstrip()
    return text


def abstention_text(id: str, missing: str, width: int, *, ascii: bool = False) -> Text:
    """Why a rule could not judge, and what it would have looked for."""
    text = Text()
    rule = all_rules().get(id)
    _add(text, "", f"{id} {rule.title}" if rule is not None else id, width, ascii=ascii, style="bold")
    _add(text, "Needs", missing, width, ascii=ascii)
    if rule is not None:
        for number, paragraph in enumerate((inspect.getdoc(rule.look) or "").split("\n\n")):
            plain = paragraph.replace("`", "")  # marks of the generated page, which this is not
            _add(text, "" if number else "What", plain, width, ascii=ascii, indent=True)
    text.rstrip()
    return text


def _add(text: Text, label: str, said: str, width: int, *, ascii: bool, style: str = "", indent: bool = False) -> None:
    indented = bool(label) or indent or not style
    room = max(width - (LABEL_WIDTH if indented else 0), 20)
    lines = wrapped(printable(" ".join(said.split()), ascii=ascii), room) or [""]
    for number, line in enumerate(lines):
        if indented:
            text.append(pad(label if number == 0 else "", LABEL_WIDTH), "bold")
        text.append(f"{line}\n", style)
