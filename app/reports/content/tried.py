"""The changes that were measured: a table, what to write into the program, and what could not be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.analysis.tables.findings import TRIED
from tracetui.analysis.tried import BESIDE, TOGETHER
from tracetui.app.reports.parts import Sentences, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tracetui.analysis.report.model import Row
    from tracetui.app.reports.layout import Layout
    from tracetui.app.reports.parts import Part

NOTHING_TRIED = "No change was measured yet: tracetui try RUN -- python SCRIPT"


def tried(rows: Sequence[Row], layout: Layout, about: str = "") -> Iterator[Part]:
    """The rows of the table `tried`, and a sentence about them all."""
    if not rows:
        yield Sentences((NOTHING_TRIED,))
        return
    failed = tuple(f"{row['name']}: {row['problem']}" for row in rows if row["problem"])
    measured = [row for row in rows if not row["problem"]]
    if measured:
        beside = dict.fromkeys(row["beside"] for row in measured if row["beside"])
        after = [f"{BESIDE}: beside {', then '.join(beside)}; its gain is of the step with that."] if beside else []
        yield listed(TRIED, measured, layout, after=(*([about] if about else []), *after))
    single = [row for row in measured if row["write"] and not row["name"].startswith(TOGETHER)]
    joined = next((row["name"] for row in measured if row["name"].startswith(TOGETHER)), "")
    good = [
        row
        for row in single
        if (row["low_percent"] or 0.0) > 0 or (row["name"].removeprefix(f"{BESIDE} ") in joined and not row["beside"])
    ]
    if good:
        lines = (
            f"{row['name'].removeprefix(f'{BESIDE} ')}: {row['write']}" + (f" ({row['risk']})" if row["risk"] else "")
            for row in good
        )
        yield Sentences(tuple(lines), heading="To write into the program:", bullets=True)
    if joined:
        yield Sentences((f"{joined[:1].upper()}{joined[1:]}.",))
    if failed:
        yield Sentences(failed, heading="Not measured:", bullets=True)
