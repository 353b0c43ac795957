"""A report of at most so many tokens, which says at its end what it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tracetui.analysis.report.model import Headline, Report
from tracetui.analysis.report.shorten import Level, TooShort, cut, fitting
from tracetui.app.reports.content.run import run_parts
from tracetui.app.reports.finding_words import doubt
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.parts import Part, Sentences, Title
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.words import SEVERITY_SIGNS

Short = Report | Headline
Parts = Callable[[Short, Layout], Iterable[Part]]


def shortened(found: Report, most: int, printed: Callable[[Short, Parts | None, int], str], *, as_data: bool) -> str:
    """The longest form of a report that fits.

    Args:
        found: the report.
        most: how many tokens it may have.
        printed: writes a report: as JSON, or laid out from these parts with so many rows per list.
        as_data: whether it is written as JSON.

    Raises:
        UsageError: not even the shortest form fits.
    """

    def form(found: Report, level: Level) -> str:
        return printed(cut(found, level, most, lists=as_data), None if as_data else _parts, max(level.limit, 1))

    try:
        return fitting(found, most, form)
    except TooShort as short:
        raise UsageError(f"--max-tokens {most}: {short}") from None


def _parts(found: Short, layout: Layout) -> Iterator[Part]:
    if isinstance(found, Report):
        yield from run_parts(found, layout)
    else:
        yield Title(found.path)
        verdict = "" if found.waits_for is None else found.waits_for.sentence
        yield Sentences(tuple(text for text in (found.base, verdict) if text))
        if rows := found.findings:
            marks = tuple(SEVERITY_SIGNS[row.severity] for row in rows)
            texts = tuple(f"{row.key} {row.severity}{doubt(row.doubted_by)}: {row.title}" for row in rows)
            yield Sentences(texts, bullets=True, marks=marks)
    if found.left_out and found.max_tokens:
        left = ", ".join(f"{part.what} ({part.shown} of {part.of:,})" for part in found.left_out)
        yield Sentences((f"Left out for --max-tokens {found.max_tokens.asked}: {left}.",))
