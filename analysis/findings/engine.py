"""Runs the validity rules first, then the others, and drops findings that rest on what a validity rule refuted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core import overlap
from tracetui.analysis.findings.core.finding import SEVERITIES, Abstention, Finding, Findings, Suppressed
from tracetui.analysis.findings.core.rule import Limits, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.findings.core.facts import Subject

LEAST_GAIN_PERCENT = 2.0
"""Advice that could gain no more than this share of the step is left out (rule K14)."""
BUG = "a bug in tracetui"
"""The first words of the abstention of a rule that raised an exception."""


def find(
    subject: Subject,
    config: Config | None = None,
    rules: Mapping[str, Rule] | None = None,
    on_error: Callable[[Exception], None] | None = None,
) -> Findings:
    """Returns what the rules found. A rule that raises abstains and reports a bug; the others still run.

    Args:
        subject: `facts.Facts` of a run, `facts.Pair` of two, `facts.Sweep` of many.
        config: the user's thresholds and the rules that they silenced.
        rules: the rules to run instead of all of them.
        on_error: called with the exception that a rule raised.
    """
    known = all_rules(subject.kind) if rules is None else rules
    found: list[tuple[Rule, Finding]] = []
    abstained: list[Abstention] = []
    checked: list[str] = []
    for declared in sorted(known.values(), key=lambda r: not _is_validity(r)):
        if declared.subject != subject.kind:
            continue
        try:
            answers = _ask(declared, subject, config)
        except Exception as error:
            answers = [Abstention(declared.id, f"{BUG}: {type(error).__name__}: {error}")]
            if on_error is not None:
                on_error(error)
        silent = [answer for answer in answers if isinstance(answer, Abstention)]
        abstained += silent
        if not silent:
            checked.append(declared.id)
        found += [(declared, answer) for answer in answers if isinstance(answer, Finding)]
    return _with_overlaps(subject, _sifted(found, abstained, checked, config))


def _with_overlaps(subject: Subject, said: Findings) -> Findings:
    if not any(finding.work is not None for finding in said.found):
        return said
    # only rules on one recording know its GPU work
    duration = subject.trace.device["duration"].fill_null(0).to_numpy()  # type: ignore[attr-defined]
    return replace(said, found=overlap.told(said.found, duration))


def _ask(declared: Rule, subject: Subject, config: Config | None) -> list[Finding | Abstention]:
    if missing := subject.missing(declared.needs):
        return [Abstention(declared.id, missing)]
    return _listed(declared.look(subject, limits_of(declared, config)))


def limits_of(declared: Rule, config: Config | None = None) -> Limits:
    """The rule's thresholds, the user's own where given."""
    own = config.thresholds if config else {}
    return Limits({name: own.get(f"{declared.id}.{name}", limit.value) for name, limit in declared.thresholds.items()})


def _is_validity(declared: Rule) -> bool:
    return declared.id.startswith("V")


def _listed(said: Any) -> list[Finding | Abstention]:
    if said is None:
        return []
    return list(said) if isinstance(said, Iterable) else [said]


def _sifted(
    found: list[tuple[Rule, Finding]], abstained: list[Abstention], checked: list[str], config: Config | None
) -> Findings:
    """Removes findings that were silenced or rest on a refuted base; adds remarks to those on a doubted base."""
    silence = config.silenced if config else {}
    silenced = [Suppressed(finding, silence[rule.id]) for rule, finding in found if rule.id in silence]
    heard = [(rule, finding) for rule, finding in found if rule.id not in silence]
    refuted = {base: rule.id for rule, _ in heard for base in rule.refutes}
    doubts: dict[str, list[str]] = {}
    for rule, _ in heard:
        for base in rule.doubts if rule.remark else ():
            doubts.setdefault(base, []).append(f"{rule.id}: {rule.remark}")
    kept: list[Finding] = []
    suppressed: list[Suppressed] = []
    for rule, finding in heard:
        by = next((refuted[base] for base in rule.rests_on if base in refuted), None)
        if by is not None and not _is_validity(rule):
            suppressed.append(Suppressed(finding, by))
        elif finding.ceiling_percent is not None and finding.ceiling_percent < LEAST_GAIN_PERCENT:
            suppressed.append(Suppressed(finding, "K14"))
        else:
            remarks = [] if _is_validity(rule) else [said for base in rule.rests_on for said in doubts.get(base, ())]
            kept.append(replace(finding, remarks=(*finding.remarks, *dict.fromkeys(remarks))))
    kept.sort(key=_rank)
    return Findings(tuple(kept), tuple(suppressed), tuple(silenced), tuple(abstained), tuple(checked))


def _rank(finding: Finding) -> tuple[int, float, float, str]:
    """Worst first; of equals what gains most for certain, then what may gain most."""
    return (
        SEVERITIES.index(finding.severity),
        -(finding.sure_percent or 0.0),
        -(finding.impact_ns or 0.0),
        finding.id,
    )
