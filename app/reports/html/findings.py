"""Findings as articles: severity by sign, word and colour, then what a colleague would say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.reports.finding_words import evidence_text, headline, looked, missing_by_reason, parts, whole_of
from tracetui.app.reports.html.markup import element, said

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.layout import Layout


def heading(found: Json) -> str:
    """``Findings (23 rules looked, …)``."""
    aside = len(found["findings_suppressed"]) + len(found["findings_silenced"])
    return f"Findings ({looked(len(found['findings_checked']), len(found['findings_abstained']), aside)})"


def findings(found: Json, layout: Layout, level: int) -> list[str]:
    """Every finding, then behind a fold what was set aside and what could not be judged.

    Args:
        found: what holds the key `findings` and those beside it.
        layout: its limit is that of a list.
        level: of a finding's heading.
    """
    rows = found["findings"][: layout.limit]
    whole = whole_of(found.get("base", "step"))
    lines = [_finding(row, whole, level, layout) for row in rows] or ["<p>None.</p>"]
    away = [(row["id"], f"{row['title']} (by {row['by']})") for row in found["findings_suppressed"]]
    away += [(row["id"], f"{row['title']} (silenced: {row['reason']})") for row in found["findings_silenced"]]
    missing = missing_by_reason(found["findings_abstained"])
    return [
        *lines,
        *_fold("Set aside", away),
        *_fold("Could not judge: what is missing", missing, len(found["findings_abstained"])),
    ]


def _finding(row: Json, whole: str, level: int, layout: Layout) -> str:
    mark, _, title = headline(row).partition(": ")
    head = f'<span class="mark">{said(layout.text(mark))}</span>: {said(layout.text(title))}'
    lines = [element(f"h{level}", head)]
    rows = [
        f"<dt>{said(label or 'and')}</dt><dd>"
        + (f"<code>{said(layout.text(text))}</code>" if label == "Run" else said(layout.text(text)))
        + "</dd>"
        for label, text in parts(row, whole, ascii=layout.ascii)
    ]
    if rows:
        lines.append(f"<dl>{''.join(rows)}</dl>")
    if row["evidence"]:
        shown = [(item["label"], evidence_text(item, ascii=layout.ascii)) for item in row["evidence"]]
        lines += _fold("What it rests on", shown)
    return element("article", "\n".join(lines), class_=f"finding {row['severity']}")


def _fold(title: str, rows: list[tuple[str, str]], count: int | None = None) -> list[str]:
    if not rows:
        return []
    inside = "".join(f"<dt>{said(name)}</dt><dd>{said(text)}</dd>" for name, text in rows)
    many = len(rows) if count is None else count
    return [f"<details><summary>{said(title)} ({many})</summary><dl>{inside}</dl></details>"]
