"""What rules say in a chapter of a draft: what they found, that they found nothing, or why they could not judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.reports.finding_words import cost, headline, titled, whole_of
from tracetui.app.reports.parts import Sentences

if TYPE_CHECKING:
    from tracetui.analysis.report.model import FindingRow, Judged

MEASUREMENT = "V"
"""What the ids of rules on the measurement begin with."""


def about(judged: Judged | None, base: str, ids: list[str]) -> Sentences:
    """What these rules say: their findings with what to try, that they found nothing, or why they could not judge."""
    if judged is None:
        return Sentences(())
    said: list[str] = []
    missing = {row.id: row.missing for row in judged.findings_abstained}
    quiet: list[str] = []
    blind: dict[str, list[str]] = {}
    for name in ids:
        mine = [row for row in judged.findings if row.id == name]
        said += [f"{headline(row)}. {_gain(row, base)}{row.advice}" for row in mine]
        if not mine and name in missing:
            blind.setdefault(missing[name], []).append(name)
        elif not mine and name in judged.findings_checked:
            quiet.append(name)
    said += [f"{', '.join(names)} could not judge: {reason}." for reason, names in blind.items()]
    if quiet:
        said.append(f"{', '.join(quiet)} looked and found nothing.")
    return Sentences(tuple(said), bullets=True)


def _gain(row: FindingRow, base: str) -> str:
    """The most that can be gained, as a sentence; empty where that is unknown."""
    text = cost(row, whole_of(base))
    return f"Costs {text}. " if row.impact_us else f"{text[:1].upper()}{text[1:]}. " if text else ""


def directions(judged: Judged | None, base: str, limit: int | None) -> Sentences:
    """What can be done about each finding, and the most that it can gain; not what is to be measured otherwise."""
    rows = judged.findings if judged is not None else []
    rows = [row for row in rows if row.advice and not row.id.startswith(MEASUREMENT)]
    return Sentences(
        tuple(f"{titled(row.title, row.doubted_by)}. {_gain(row, base)}{row.advice}" for row in rows[:limit]),
        bullets=True,
    )
