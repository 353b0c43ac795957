"""What rules say in a chapter of a draft: what they found, that they found nothing, or why they could not judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracetui.app.reports.finding_words import cost, headline, titled, whole_of
from tracetui.app.reports.parts import Sentences

if TYPE_CHECKING:
    from tracetui.analysis.base.json_values import Json

MEASUREMENT = "V"
"""What the ids of rules on the measurement begin with."""


def about(judged: list[Json], ids: list[str]) -> Sentences:
    """What these rules say: their findings with what to try, that they found nothing, or why they could not judge."""
    said: list[str] = []
    for found in judged:
        rows = found.get("findings") or []
        missing = {row["id"]: row["missing"] for row in found.get("findings_abstained") or ()}
        quiet: list[str] = []
        blind: dict[str, list[str]] = {}
        for name in ids:
            mine = [row for row in rows if row["id"] == name]
            said += [f"{headline(row)}. {_gain(row, found)}{row['advice']}" for row in mine]
            if not mine and name in missing:
                blind.setdefault(missing[name], []).append(name)
            elif not mine and name in (found.get("findings_checked") or ()):
                quiet.append(name)
        said += [f"{', '.join(names)} could not judge: {reason}." for reason, names in blind.items()]
        if quiet:
            said.append(f"{', '.join(quiet)} looked and found nothing.")
    return Sentences(tuple(said), bullets=True)


def _gain(row: Json, found: Json) -> str:
    """The most that can be gained, as a sentence; empty where that is unknown."""
    text = cost(row, whole_of(found.get("base", "step")))
    return f"Costs {text}. " if row["impact_us"] else f"{text[:1].upper()}{text[1:]}. " if text else ""


def directions(found: Json, limit: int | None) -> Sentences:
    """What can be done about each finding, and the most that it can gain; not what is to be measured otherwise."""
    rows = [row for row in found.get("findings") or () if row["advice"] and not row["id"].startswith(MEASUREMENT)]
    return Sentences(
        tuple(f"{titled(row['title'], row['doubted_by'])}. {_gain(row, found)}{row['advice']}" for row in rows[:limit]),
        bullets=True,
    )
