"""A report as one HTML page: the same parts, and the same cells, as in text and in Markdown."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.analysis.base.number_format import UNKNOWN
from tracetui.app.charts.slide import chart_style
from tracetui.app.reports.finding_words import (
    advice,
    details,
    evidence_text,
    gain,
    headline,
    known_from,
    looked,
    mark,
    missing_by_reason,
    page_base,
    parts,
    whole_of,
)
from tracetui.app.reports.open_command import spelled
from tracetui.app.reports.parts import Command, Facts, FindingList, Sentences, Title, rows_shown
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tracetui.analysis.report.model import FindingRow, Judged
    from tracetui.app.reports.layout import Layout, Shown
    from tracetui.app.reports.parts import Block, Chart, Part


def said(text: str) -> str:
    """A name or sentence: neither markup nor a control character of it is left to work."""
    return escape(printable(text), quote=True)


def element(name: str, inside: str, **attributes: str) -> str:
    """An element around markup; attributes that are empty are left out, ``class_`` and ``data_v`` are spelled so."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{said(value)}"' for key, value in attributes.items() if value
    )
    return f"<{name}{given}>{inside}</{name}>"


def findings_heading(found: Judged) -> str:
    """``Findings (23 rules looked, …)``."""
    aside = len(found.findings_suppressed) + len(found.findings_silenced)
    return f"Findings ({looked(len(found.findings_checked), len(found.findings_abstained), aside)})"


def findings(found: Judged, base: str, layout: Layout, level: int, *, folded: bool = False) -> list[str]:
    """Every finding, with `folded` its heading alone; behind folds what was set aside and what could not be judged."""
    rows = found.findings[: layout.limit]
    whole = whole_of(base)
    lines = [_finding(row, whole, level, layout, folded=folded) for row in rows] or ["<p>None.</p>"]
    away = [(row.id, f"{row.title} ({row.by})") for row in found.findings_suppressed]
    away += [(row.id, f"{row.title} (silenced: {row.reason})") for row in found.findings_silenced]
    missing = missing_by_reason(found.findings_abstained)
    return [
        *lines,
        *_fold("Set aside", away),
        *_fold("Could not judge: what is missing", missing, len(found.findings_abstained)),
    ]


def first_findings(part: FindingList, found: Judged, layout: Layout, level: int) -> list[str]:
    """The first findings, folded to title and gains so that the first picture is in view; then all of them."""
    first, whole = advice(found.findings, answer=part.answer), whole_of(part.base)
    named = page_base(first, whole, ascii=layout.ascii)
    told = known_from(named, clean=part.clean).removeprefix("; ")
    lines = [element("p", said(f"{told[:1].upper()}{told[1:]}."))] if told else []
    for row in first:
        head = element(f"h{level}", f'<span class="mark">{said(mark(row))}</span> {said(layout.text(row.title))}')
        texts = details(row, whole, named=named, ascii=layout.ascii)
        gains = gain(row, whole, named, ascii=layout.ascii)
        in_head = [text for text in texts if gains and text.startswith(gains)]
        head += "".join(element("span", said(layout.text(text))) for text in in_head)
        about = "".join(element("p", said(layout.text(text))) for text in texts if text not in in_head)
        folded = f"<details><summary>{head}</summary>{about}</details>" if about else head
        lines.append(element("section", folded, class_=f"finding {row.severity}"))
    every = f"All {len(found.findings)}, and what they rest on" if found.findings else "None; what could not be judged"
    summary = f"<summary>{every}</summary>"
    return [*lines, f"<details>{summary}", *findings(found, part.base, layout, level), "</details>"]


def _finding(row: FindingRow, whole: str, level: int, layout: Layout, *, folded: bool) -> str:
    mark, _, title = headline(row).partition(": ")
    head = element(f"h{level}", f'<span class="mark">{said(layout.text(mark))}</span>: {said(layout.text(title))}')
    lines: list[str] = []
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
    about = "\n".join(lines)
    inside = f"<details><summary>{head}</summary>{about}</details>" if folded and about else f"{head}\n{about}"
    return element("article", inside, class_=f"finding {row.severity}")


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
    findings_at: int | None = None
    """Where the findings in brief begin, until the first picture below them is put there, into the first screen."""

    def add(self, part: Part) -> None:
        """Appends a part."""
        if isinstance(part, Title):
            self._title(part)
        elif isinstance(part, Facts):
            rows = "".join(f"<dt>{said(title)}</dt><dd>{self._said(text)}</dd>" for title, text in part.rows)
            self.body.append(f'<dl class="facts">{rows}</dl>' if rows else "")
        elif isinstance(part, FindingList):
            if part.judged is not None:
                self.findings_at = len(self.body) if part.brief else None
                self._heading(findings_heading(part.judged))
                level = min(self.level + 2, 6)
                if part.brief:
                    self.body += first_findings(part, part.judged, self.layout, level)
                else:
                    self.body += findings(part.judged, part.base, self.layout, level, folded=part.folded)
        elif isinstance(part, Sentences):
            self._sentences(part)
        elif isinstance(part, Command):
            line = f"{said(self.layout.text(part.said))} <code>{said(self.layout.text(spelled(part.words)))}</code>"
            self.body.append(element("p", line, class_="note"))
        else:
            self._block(part)

    def _title(self, part: Title) -> None:
        self.level, self.findings_at = min(part.level, 3), None
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
        picture, first = self._picture(block.chart), block.chart_first or block.drawn_first
        if picture and self.findings_at is not None:
            self.body[self.findings_at : self.findings_at], picture, self.findings_at = picture, [], None
        if block.cells:
            heading = self._heading(self.layout.heading(block.heading, block.base, rows_shown(block), block.whole))
            self.body += [element("p", self._said(block.note), class_="note")] if block.note else []
            self.body += picture if first else []
            self.body.append(table(block, heading))
        self.body += [element("p", self._said(text), class_="note") for text in block.after]
        self.body += [] if first and block.cells else picture

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


BAR = 60
"""Units that a share of 100 % fills beside its number."""
KEY = "key"
"""The column that names a row, which stays in sight where the page is narrow."""


def table(block: Block, heading: str) -> str:
    """The table, in a box of its own that scrolls where the page is narrow; the heading with this id names it."""
    kept = [n for n, column in enumerate(block.columns) if not column.is_bar]
    columns = [block.columns[n] for n in kept]
    values = [_values(block, n) for n in kept]
    key = next((place for place, column in enumerate(columns) if column.is_name), None)
    numbers = [column_values([row[n] for row in block.cells], raw) for n, raw in zip(kept, values, strict=True)]
    head = "".join(
        _head(column, known, is_key=place == key)
        for place, (column, known) in enumerate(zip(columns, numbers, strict=True))
    )
    rows = []
    depths = block.depths or (0,) * len(block.cells)
    for at, (row, depth) in enumerate(zip(block.cells, depths, strict=True)):
        cells = [
            _cell(
                row[n],
                column,
                depth if place == len(kept) - 1 else 0,
                None if known is None else known[at],
                raw[at] if raw else None,
                is_key=place == key,
            )
            for place, (n, column, known, raw) in enumerate(zip(kept, columns, numbers, values, strict=True))
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(rows)
    # rows of a tree stand below their parent, and rows without a name belong to the one above
    sorts = not block.depths and len(rows) > 1 and all(row[kept[0]].strip() for row in block.cells)
    inside = f"<table{' data-sorts' if sorts else ''}><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    box = element("div", inside, class_="scroll", role="region", tabindex="0", aria_labelledby=heading)
    return box + _meanings(columns)


def _values(block: Block, column: int) -> list[object]:
    """What a column's cells were written from; empty where the block does not say."""
    rows = block.values[: len(block.cells)]
    known = len(rows) == len(block.cells) and all(column < len(row) for row in rows)
    return [row[column] for row in rows] if known else []


def _head(column: Shown, numbers: list[float | None] | None, *, is_key: bool) -> str:
    style = KEY if is_key else "right" if column.right else ""
    attributes = {"scope": "col", "class_": style, "title": column.about, "data_n": "1" if numbers else ""}
    return element("th", said(column.title), **attributes)


def _cell(text: str, column: Shown, depth: int, number: float | None, raw: object, *, is_key: bool) -> str:
    inside = said(text)
    if column.is_name and text:
        inside = f"<code>{inside}</code>"
    if depth:
        inside = f'<span class="deep">{"· " * depth}</span>{inside}'
    if column.has_bar and number is not None:
        inside = _bar(number) + inside
    whole = raw if isinstance(raw, str) and raw != text and column.is_name else ""
    style = f"name {KEY}" if is_key else "name" if column.is_name else "right" if column.right else ""
    value = "" if number is None else f"{number:.12g}"
    return element("td", inside, class_=style, title=whole, data_v=value)


def _bar(percent: float) -> str:
    wide = f"{min(max(percent, 0.0), 100.0) / 100 * BAR:.1f}"
    return (
        f'<svg class="bar" width="{BAR}" height="9" aria-hidden="true">'
        f'<rect width="{BAR}" height="9" class="floor"/><rect width="{wide}" height="9" class="gpu"/></svg>'
    )


def _meanings(columns: Sequence[Shown]) -> str:
    """What the columns mean, for whoever has no pointer to rest on a heading."""
    rows = [f"<dt>{said(one.title)}</dt><dd>{said(one.about)}</dd>" for one in columns if one.about and one.title]
    if not rows:
        return ""
    return f'<details class="meanings"><summary>What the columns mean</summary><dl>{"".join(rows)}</dl></details>'


_WRITTEN = re.compile(r"[<>]?([+-]?\d[\d,]*(?:\.\d+)?)(?: ?([A-Za-zµ%/]+))?(?: ±.*)?")
_TIMES = {"ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9}
_SIZES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_RATES = ("FLOP/s", "FLOP", "B/s", "Hz", "sector/s")
_ANY = ""
"""The unit of a bare 0, which is the same in all."""


def column_values(texts: Sequence[str], raw: Sequence[object]) -> list[float | None] | None:
    """The numbers behind a column's cells, null where unknown; None for a column of texts, or of several units.

    Args:
        texts: the cells as they are written.
        raw: what they were written from, where that is known; as long as `texts`, or empty.
    """
    known = [n for n, text in enumerate(texts) if not _is_unknown(text)]
    if raw and all(_is_number(raw[n]) for n in known):
        exact: list[float | None] = [None] * len(texts)
        for n in known:
            exact[n] = float(raw[n])  # type: ignore[arg-type]  # what `_is_number` said
        return exact if known else None
    found: list[float | None] = [None] * len(texts)
    units = set()
    for n in known:
        amount = amount_of(texts[n])
        if amount is None:
            return None
        units.add(amount[0])
        found[n] = amount[1]
    return found if units and len(units - {_ANY}) <= 1 else None


def amount_of(text: str) -> tuple[str, float] | None:
    """The unit and the value of a number as reports write it: ``1.234 ms``, ``<0.01``, ``1.42 ±0.03``; else None."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    value, unit = float(match[1].replace(",", "")), match[2] or ""
    if text[0] in "<>":
        value /= 2
    if not unit:
        return ("number" if value else _ANY), value
    if unit in _TIMES:
        return "time", value * _TIMES[unit]
    if unit in _SIZES:
        return "size", value * _SIZES[unit]
    rate = next((rate for rate in _RATES if unit.endswith(rate)), None)
    if rate is not None and unit.removesuffix(rate) in _PREFIXES:
        return rate, value * _PREFIXES[unit.removesuffix(rate)]
    return unit, value


def _is_unknown(text: str) -> bool:
    return text.strip() in ("", UNKNOWN)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
