"""Findings in the text and Markdown reports: each as a colleague would say it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracetui.app.reports.finding_words import (
    LABEL_WIDTH,
    MOST_ADVICE,
    advice,
    brief,
    details,
    evidence_text,
    headline,
    is_remark,
    known_from,
    looked,
    mark,
    missing_by_reason,
    more,
    page_base,
    parts,
    whole_of,
)
from tracetui.app.reports.layout import WIDTH
from tracetui.app.text.escaping import code, plain
from tracetui.app.text.fitting import cell_width, fit, pad

if TYPE_CHECKING:
    from tracetui.analysis.report.model import FindingRow, Judged
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import FindingList

INDENT = "  "
MARK_WIDTH = 6
"""Columns for a sign and an id, with the space behind them."""
CONTINUED = " \\"
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*'|["'])+""")
"""A word of a shell command, quotes and all."""


def finding_lines(found: Judged, base: str, layout: Layout, *, whole: bool = False) -> list[str]:
    """The findings of a trace or of a diff; with `whole`, what was set aside and what was missing to judge."""
    rows = found.findings
    shown = rows[: layout.limit]
    part = f"{len(shown)} of {len(rows)}; " if len(shown) < len(rows) else f"{len(rows)}; " if rows else "none; "
    lines = layout.paragraph(f"Findings ({part}{_looked(found)})")
    of = whole_of(base)
    for row in shown:
        lines += ["", *_finding(row, layout, of, evidence=whole)] if whole else _finding(row, layout, of)
    return [*lines, *_rest(found, layout)] if whole else lines


def brief_lines(part: FindingList, found: Judged, layout: Layout) -> list[str]:
    """The first findings in four lines each, remarks in one."""
    rows, whole = found.findings, whole_of(part.base)
    first = advice(rows, min(layout.limit or MOST_ADVICE, MOST_ADVICE), part.answer)
    named = page_base(first, whole, ascii=layout.ascii)
    remarks = [row for row in rows if is_remark(row)][: layout.limit]
    if not rows:
        return layout.paragraph(f"Findings (none; {_looked(found)})")
    lines = [f"Findings ({len(first) + len(remarks)} of {len(rows)}{known_from(named, clean=part.clean)})"]
    for row in first:
        texts = brief(row, WIDTH - MARK_WIDTH, whole, named, ascii=layout.ascii)
        lines += [pad("" if number else mark(row), MARK_WIDTH) + text for number, text in enumerate(texts)]
    lines += [
        pad(mark(row), MARK_WIDTH) + fit(layout.text(row.title), WIDTH - MARK_WIDTH, ascii=layout.ascii)
        for row in remarks
    ]
    return [*lines, f"{INDENT}{more(len(rows) - len(first) - len(remarks))}"]


def brief_markdown(part: FindingList, found: Judged, layout: Layout) -> list[str]:
    """The same in Markdown, with all findings and what they rest on behind a fold."""
    first, whole = advice(found.findings, answer=part.answer), whole_of(part.base)
    named = page_base(first, whole)
    lines = [f"### Findings ({_looked(found)}{known_from(named, clean=part.clean)})", ""]
    for row in first:
        lines.append(f"- **{plain(f'{mark(row)} {row.title}')}**")
        lines += [f"  - {plain(text)}" for text in details(row, whole, named=named)]
    summary = f"<details><summary>All {len(found.findings)}, and what they rest on</summary>"
    return [*lines, "", summary, "", *_in_full(found, part.base, layout), "", "</details>", ""]


def finding_markdown(found: Judged, base: str, layout: Layout) -> list[str]:
    """The same in Markdown."""
    return [f"### Findings ({_looked(found)})", "", *(_in_full(found, base, layout) or ["None."]), ""]


def _in_full(found: Judged, base: str, layout: Layout) -> list[str]:
    lines = []
    for row in found.findings[: layout.limit]:
        lines.append(f"- **{plain(headline(row))}**")
        for label, text in parts(row, whole_of(base)):
            lines.append(f"  - {label or 'and'}: {code(text) if label == 'Run' else plain(text)}")
    return lines


def _looked(found: Judged) -> str:
    aside = len(found.findings_suppressed) + len(found.findings_silenced)
    return looked(len(found.findings_checked), len(found.findings_abstained), aside)


def _finding(row: FindingRow, layout: Layout, of: str, *, evidence: bool = False) -> list[str]:
    sign, _, title = headline(row).partition(" ")
    lines = layout.field(sign, title, width=len(INDENT))
    for label, text in parts(row, of, ascii=layout.ascii):
        if label == "Limit" and not evidence:
            continue
        if label == "Run":
            lines += _command(text, layout)
        else:
            lines += layout.field(f"{INDENT}{label}", text, width=LABEL_WIDTH + len(INDENT))
    if evidence and row.evidence:
        said = "; ".join(f"{item.label} {evidence_text(item, ascii=layout.ascii)}" for item in row.evidence)
        lines += layout.field(f"{INDENT}Rests", said, width=LABEL_WIDTH + len(INDENT))
    return lines


def _command(command: str, layout: Layout) -> list[str]:
    """Wraps a command so that its lines can be copied into a shell; breaks only between words."""
    gap = " " * (len(INDENT) + LABEL_WIDTH)
    room = WIDTH - len(gap) - len(CONTINUED)
    lines = [""]
    for word in _WORD.findall(layout.text(command)):
        if cell_width(word) > room:
            return layout.field(f"{INDENT}Run", command, width=len(gap))
        joined = f"{lines[-1]} {word}".lstrip()
        lines = [*lines[:-1], joined] if cell_width(joined) <= room else [*lines, word]
    first = f"{INDENT}{pad('Run', LABEL_WIDTH)}"
    return [(gap if n else first) + line + (CONTINUED if n < len(lines) - 1 else "") for n, line in enumerate(lines)]


def _rest(found: Judged, layout: Layout) -> list[str]:
    lines: list[str] = []
    away: list[tuple[FindingRow, str]] = [(row, row.by) for row in found.findings_suppressed]
    away += [(row, f"silenced: {row.reason}") for row in found.findings_silenced]
    if away:
        lines += ["", "Set aside"]
        for row, why in away:
            lines += layout.field(f"{INDENT}{row.id}", f"{row.title} ({why})", width=LABEL_WIDTH)
    if found.findings_abstained:
        lines += ["", "Could not judge: what is missing"]
        for rules, missing in missing_by_reason(found.findings_abstained):
            lines += layout.field(INDENT, f"{rules}: {missing}", width=len(INDENT) * 2)
    return lines
