"""A report as one HTML page: the same parts, and the same cells, as in text and in Markdown."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.charts.slide import chart_style
from tracetui.app.reports.finding_words import evidence_text, headline, looked, missing_by_reason, parts, whole_of
from tracetui.app.reports.html.markup import element, said
from tracetui.app.reports.html.tables import table
from tracetui.app.reports.open_command import spelled
from tracetui.app.reports.parts import Command, Facts, FindingList, Sentences, Title, rows_shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tracetui.analysis.report.model import FindingRow, Judged
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Block, Chart, Part


def findings_heading(found: Judged) -> str:
    """``Findings (23 rules looked, …)``."""
    aside = len(found.findings_suppressed) + len(found.findings_silenced)
    return f"Findings ({looked(len(found.findings_checked), len(found.findings_abstained), aside)})"


def findings(found: Judged, base: str, layout: Layout, level: int) -> list[str]:
    """Every finding, then behind a fold what was set aside and what could not be judged.

    Args:
        found: the findings, and what was set aside.
        base: what the numbers are about.
        layout: its limit is that of a list.
        level: of a finding's heading.
    """
    rows = found.findings[: layout.limit]
    whole = whole_of(base)
    lines = [_finding(row, whole, level, layout) for row in rows] or ["<p>None.</p>"]
    away = [(row.id, f"{row.title} (by {row.by})") for row in found.findings_suppressed]
    away += [(row.id, f"{row.title} (silenced: {row.reason})") for row in found.findings_silenced]
    missing = missing_by_reason(found.findings_abstained)
    return [
        *lines,
        *_fold("Set aside", away),
        *_fold("Could not judge: what is missing", missing, len(found.findings_abstained)),
    ]


def _finding(row: FindingRow, whole: str, level: int, layout: Layout) -> str:
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
    if row.evidence:
        shown = [(item.label, evidence_text(item, ascii=layout.ascii)) for item in row.evidence]
        lines += _fold("What it rests on", shown)
    return element("article", "\n".join(lines), class_=f"finding {row.severity}")


def _fold(title: str, rows: list[tuple[str, str]], count: int | None = None) -> list[str]:
    if not rows:
        return []
    inside = "".join(f"<dt>{said(name)}</dt><dd>{said(text)}</dd>" for name, text in rows)
    many = len(rows) if count is None else count
    return [f"<details><summary>{said(title)} ({many})</summary><dl>{inside}</dl></details>"]


LEAST_CONTENTS = 2
"""Headings from which on a list of them is worth its room."""


def html(parts: Iterable[Part], layout: Layout) -> str:
    """The whole report as a page; ends in one line break."""
    page = _Page(layout)
    for part in parts:
        page.add(part)
    whole = page.whole()
    return whole.encode("ascii", "xmlcharrefreplace").decode("ascii") if layout.ascii else whole


@dataclass
class _Page:
    """What the page has so far."""

    layout: Layout
    title: str = "tracetui report"
    body: list[str] = field(default_factory=list)
    contents: list[tuple[int, str, str]] = field(default_factory=list)
    """(level, id, text) of each heading below the title."""
    level: int = 1
    """Of the last title, below which the headings of tables stand."""

    def add(self, part: Part) -> None:
        """Appends a part."""
        if isinstance(part, Title):
            self._title(part)
        elif isinstance(part, Facts):
            rows = "".join(f"<dt>{said(title)}</dt><dd>{self._said(text)}</dd>" for title, text in part.rows)
            self.body.append(f'<dl class="facts">{rows}</dl>' if rows else "")
        elif isinstance(part, FindingList):
            if part.judged is not None:
                self._heading(findings_heading(part.judged))
                self.body += findings(part.judged, part.base, self.layout, min(self.level + 2, 6))
        elif isinstance(part, Sentences):
            self._sentences(part)
        elif isinstance(part, Command):
            line = f"{said(self.layout.text(part.said))} <code>{said(self.layout.text(spelled(part.words)))}</code>"
            self.body.append(element("p", line, class_="note"))
        else:
            self._block(part)

    def _title(self, part: Title) -> None:
        self.level = min(part.level, 3)
        if part.level == 1:
            self.title = part.text
            self.body.append(element("h1", self._said(part.text)))
        else:
            self.level -= 1
            self._heading(part.text)
            self.level += 1

    def _heading(self, text: str) -> str:
        """Appends a heading below the last title, and returns its id."""
        level = self.level + 1
        name = f"s{len(self.contents) + 1}"
        self.contents.append((level, name, text))
        self.body.append(element(f"h{level}", self._said(text), id=name))
        return name

    def _sentences(self, part: Sentences) -> None:
        if not part.texts:
            return
        if part.heading:
            self._heading(part.heading)
        if part.bullets or part.heading:
            marks = part.marks or ("",) * len(part.texts)
            items = [
                f"<li>{f'<strong>{self._said(mark)}</strong> ' if mark else ''}{self._said(text)}</li>"
                for mark, text in zip(marks, part.texts, strict=True)
            ]
            self.body.append(f"<ul>{''.join(items)}</ul>")
        else:
            style = "lead" if part.lead else ""
            self.body += [element("p", self._said(text), class_=style) for text in part.texts]

    def _block(self, block: Block) -> None:
        self.body += [element("p", self._said(text)) for text in block.before]
        picture = self._picture(block.chart)
        if block.cells:
            heading = self._heading(self.layout.heading(block.heading, block.base, rows_shown(block), block.whole))
            self.body += [element("p", self._said(block.note), class_="note")] if block.note else []
            self.body += picture if block.chart_first else []
            self.body.append(table(block, heading))
        self.body += [element("p", self._said(text), class_="note") for text in block.after]
        self.body += [] if block.chart_first and block.cells else picture

    def _picture(self, chart: Chart | None) -> list[str]:
        if chart is None or not chart.rows or not self.layout.charts:
            return []
        if chart.drawn is None:
            title, inside = chart.title, element("pre", "\n".join(said(row.rstrip()) for row in chart.rows))
        else:
            title, inside = chart.caption or chart.title, chart.drawn()
        caption = element("figcaption", self._said(title)) if title else ""
        label = self.layout.text(title) or "Chart"
        box = element("div", inside, class_="scroll", role="region", tabindex="0", aria_label=label)
        return [element("figure", caption + box)]

    def _said(self, text: str) -> str:
        return said(self.layout.text(text))

    def whole(self) -> str:
        """The page around what was appended."""
        style, script = chart_style() + asset("page.css"), asset("page.js")
        policy = (
            f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; "
            "form-action 'none'"
        )
        head = "\n".join(
            (
                '<meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                '<meta name="color-scheme" content="light dark">',
                element("title", self._said(self.title)),
                f"<style>{style}</style>",
            )
        )
        body = "\n".join(line for line in self.body if line)
        contents = self._contents()
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n'
            f'{contents}<main id="main">\n{body}\n</main>\n<script>{script}</script>\n</body>\n</html>\n'
        )

    def _contents(self) -> str:
        if len(self.contents) < LEAST_CONTENTS:
            return ""
        items = "".join(
            f"<li{' class=' + chr(34) + 'below' + chr(34) if level > 2 else ''}>"
            f'<a href="#{name}">{self._said(_short(text))}</a></li>'
            for level, name, text in self.contents
        )
        skip = '<a class="skip" href="#main">To the report</a>\n'
        return f'{skip}<nav aria-label="Contents">\n<h2>Contents</h2>\n<ul>{items}</ul>\n</nav>\n'


def _short(heading: str) -> str:
    """A heading without what its brackets say of its numbers."""
    return re.sub(r" \([^()]*(?:\([^()]*\)[^()]*)*\)$", "", heading) or heading


@cache
def asset(name: str) -> str:
    """The page's style or script, which is the same in every page."""
    return Path(__file__).with_name(name).read_text(encoding="ascii")


def _digest(text: str) -> str:
    """What a policy names a style or a script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("ascii")).digest()).decode("ascii")
