"""A report of at most so many tokens, which says at its end what it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.report.shorten import Level, TooShort, cut, fitting
from tracetui.app.reports.content.run import run_parts
from tracetui.app.reports.finding_words import doubt
from tracetui.app.reports.parts import Sentences, Title
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.text.words import SEVERITY_SIGNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tracetui.analysis.base.json_values import Json
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part

    Parts = Callable[[Json, Layout], Iterable[Part]]


def shortened(found: Json, most: int, printed: Callable[[Json, Parts | None, int], str], *, as_data: bool) -> str:
    """The longest form of a report that fits.

    Args:
        found: the report.
        most: how many tokens it may have.
        printed: writes a report: as JSON, or laid out from these parts with so many rows per list.
        as_data: whether it is written as JSON.

    Raises:
        UsageError: not even the shortest form fits.
    """

    def form(found: Json, level: Level) -> str:
        return printed(cut(found, level, most, lists=as_data), None if as_data else _parts, max(level.limit, 1))

    try:
        return fitting(found, most, form)
    except TooShort as short:
        raise UsageError(f"--max-tokens {most}: {short}") from None


def _parts(found: Json, layout: Layout) -> Iterator[Part]:
    if "run" in found:
        yield from run_parts(found, layout)
    else:
        yield Title(found["path"])
        waits = found["waits_for"] or {"sentence": ""}
        yield Sentences(tuple(said for said in (found["base"], waits["sentence"]) if said))
        rows = found["findings"]
        if rows:
            marks = tuple(SEVERITY_SIGNS[row["severity"]] for row in rows)
            texts = tuple(f"{row['key']} {row['severity']}{doubt(row['doubted_by'])}: {row['title']}" for row in rows)
            yield Sentences(texts, bullets=True, marks=marks)
    if left := found["left_out"]:
        said = ", ".join(f"{one['what']} ({one['shown']} of {one['of']:,})" for one in left)
        asked = found["max_tokens"]["asked"]
        yield Sentences((f"Left out for --max-tokens {asked}: {said}.",))
