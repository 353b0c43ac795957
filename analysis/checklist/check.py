"""Goes through the checklist for one recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tracetui.analysis.checklist.points import PEAKS, POINTS, Point, command_for, missing_of
from tracetui.analysis.findings.of_run import findings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracetui.analysis.base.json_values import Json
    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.findings.core.facts import Facts
    from tracetui.analysis.findings.core.finding import Finding, Findings

Status = Literal["done", "failed", "not_recorded"]
STATUSES: tuple[Status, ...] = ("done", "failed", "not_recorded")
TOO_LITTLE = "K14"
"""The rule that sets aside advice which would gain too little."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A point of the checklist with its answer."""

    group: str
    question: str
    status: Status
    figure: str
    """What the answer rests on; of a point that was not recorded, what is known of it, if anything."""
    findings: tuple[Finding, ...] = ()
    """Those that failed it, the worst first."""
    beside: str = ""
    """Of a point that failed, its own figure beside the finding."""
    missing: str = ""
    """What is missing and how to record it, in words."""
    command: str = ""
    """The command that records it."""


def check(
    facts: Facts, config: Config | None = None, on_error: Callable[[Exception], None] | None = None
) -> list[Answer]:
    """Answers every point, in the order of the list.

    A point fails if a finding of its rules stands. It is done if they looked and found nothing, or nothing worth the
    trouble (K14), and its figure is known; else the recording does not tell.
    """
    found = findings_of(facts, config, on_error)
    return [_answer(facts, point, found) for point in POINTS]


def _answer(facts: Facts, point: Point, found: Findings) -> Answer:
    standing = tuple(one for one in found.found if one.id in point.rules and point.fails(facts, one))
    if standing:
        beside = point.figure(facts) if point.beside else ""
        return Answer(point.group, point.question, "failed", standing[0].title, standing, beside)
    figure = point.figure(facts)
    missing = "" if point.settled(facts) else _missing(point, found)
    if missing or not figure:
        words, command = missing or missing_of(facts, point.record), command_for(facts, point.record)
        if not words and (unknown := facts.roofline.peaks.unknown):
            words, command = "; ".join(unknown), PEAKS
        words = words or _abstained(point, found)
        return Answer(point.group, point.question, "not_recorded", figure, missing=words, command=command)
    aside = [one.finding for one in found.suppressed if one.finding.id in point.rules and one.by == TOO_LITTLE]
    small = next((one for one in aside if point.fails(facts, one)), None)
    if small is not None:
        figure += f"; set aside as worth too little: {small.title} ({small.id})"
    for one in found.silenced:
        if one.finding.id in point.rules:
            figure += f"; silenced ({one.by}): {one.finding.title} ({one.finding.id})"
    return Answer(point.group, point.question, "done", figure)


def _missing(point: Point, found: Findings) -> str:
    """Why no rule of a group could look, in words; empty if one of each group did."""
    unsure = {one.id: one.missing for one in found.abstained}
    # a finding that a rule on the measurement refuted tells nothing either
    unsure |= {
        one.finding.id: f"a measurement that holds: {one.by} speaks against this one"
        for one in found.suppressed
        if one.by != TOO_LITTLE
    }
    return next((unsure[group[0]] for group in point.asked if all(id in unsure for id in group)), "")


def _abstained(point: Point, found: Findings) -> str:
    """The first reason why a rule of the point could not look."""
    reasons = (one.missing for id in point.rules for one in found.abstained if one.id == id)
    return next(reasons, "work whose size is known")


def answer_row(answer: Answer) -> Json:
    """An answer as the JSON contract has it."""
    return {
        "group": answer.group,
        "point": answer.question,
        "status": answer.status,
        "figure": answer.figure or None,
        "findings": list(dict.fromkeys(one.id for one in answer.findings)),
        "doubted_by": list(answer.findings[0].doubted_by) if answer.findings else [],
        "advice": answer.findings[0].advice if answer.findings else None,
        "beside": answer.beside or None,
        "missing": answer.missing or None,
        "command": answer.command or None,
    }
