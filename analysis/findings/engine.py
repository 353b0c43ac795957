"""Runs the rules on the measurement first, then the others, which stand on what the first left standing.

A finding on the measurement *refutes* bases or *doubts* them. What rests on a refuted base is set aside. What rests on
a doubted one is at most `MOST_UNDER_DOUBT`, says so before anything else, and comes after what speaks against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracetui.analysis.findings import catalogue
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core import change, overlap
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import SEVERITIES, Abstention, Finding, Findings, Suppressed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.findings.core.facts import Subject
    from tracetui.analysis.findings.core.finding import Severity
    from tracetui.analysis.findings.declared.rule import Limits, Rule

LEAST_GAIN_PERCENT = 2.0
"""Advice that could gain no more than this share of the step is left out (rule K14)."""
MOST_UNDER_DOUBT: dict[str, Severity] = {
    "invalid": "info", "critical": "info", "warning": "warning", "info": "invalid",
}  # fmt: skip
"""The most that a finding may be if another of this severity doubts what it rests on; one that is ``info`` takes
nothing away."""
BUG = "a bug in tracetui"
"""The first words of the abstention of a rule that raised an exception."""


def find(
    subject: Subject,
    config: Config | None = None,
    rules: Mapping[str, Rule] | None = None,
    on_error: Callable[[Exception], None] | None = None,
    looks: Mapping[str, Callable[..., Any]] | None = None,
) -> Findings:
    """Returns what the rules found. A rule that raises abstains and reports a bug; the others still run.

    Args:
        subject: `facts.Facts` of a run, `facts.Pair` of two, `facts.Sweep` of many.
        config: the user's thresholds and the rules that they silenced.
        rules: the rules to run instead of all of them.
        on_error: called with the exception that a rule raised.
        looks: by rule, the function that looks for what it declares, instead of the catalogue's.
    """
    config = Config() if config is None else config
    rules = catalogue.all_rules(subject.kind) if rules is None else rules
    looks = catalogue.looks(subject.kind) if looks is None else looks
    found: list[tuple[Rule, Finding]] = []
    abstained: list[Abstention] = []
    checked: list[str] = []
    for rule in sorted(rules.values(), key=lambda rule: not rule.on_measurement):
        if rule.subject != subject.kind:
            continue
        try:
            answers = _ask(rule, looks[rule.id], subject, config)
        except Exception as error:
            answers = [Abstention(f"{BUG}: {type(error).__name__}: {error}", rule.id)]
            if on_error is not None:
                on_error(error)
        silent = [answer for answer in answers if isinstance(answer, Abstention)]
        abstained += silent
        if not silent:
            checked.append(rule.id)
        found += [(rule, answer) for answer in answers if isinstance(answer, Finding)]
    return _with_overlaps(subject, _sifted(found, abstained, checked, config, getattr(subject, "leads", frozenset())))


def _with_overlaps(subject: Subject, said: Findings) -> Findings:
    if not any(finding.work is not None or finding.host is not None for finding in said.found):
        return said
    # only rules on one recording know its GPU work
    duration = subject.trace.device["duration"].fill_null(0).to_numpy()  # type: ignore[attr-defined]
    return replace(said, found=overlap.told(said.found, duration))


def _ask(rule: Rule, look: Callable[..., Any], subject: Subject, config: Config) -> list[Finding | Abstention]:
    if missing := subject.missing(rule.needs):
        return [Abstention(missing, rule.id)]
    if not rule.on_measurement and (unknown := subject.unknown(rule.rests_on)):
        return [Abstention(unknown, rule.id)]
    limits = rule.limits(config.thresholds)
    answers = look(subject, limits)
    if answers is None:
        return []
    return [
        Abstention(answer.missing, rule.id)
        if isinstance(answer, Abstention)
        else _completed(answer, rule, limits, subject)
        for answer in (answers if isinstance(answers, Iterable) else [answers])
    ]


def _completed(finding: Finding, rule: Rule, limits: Limits, subject: Subject) -> Finding:
    """A finding with what its rule declares: id, threshold, advice; options that do it, their command and proofs."""
    finding = replace(
        finding,
        id=rule.id,
        threshold=finding.threshold or rule.compared_with(limits),
        advice=finding.advice or rule.advice,
    )
    if not isinstance(subject, Facts):
        return finding
    given = change.fitting(rule.changes, subject)
    command = finding.next_command or (change.command(subject, given[0]) if given else "")
    proofs = tuple((proof, claim) for proof in subject.run.proofs for claim in proof.claims if claim.id == rule.id)
    return replace(finding, changes=given, next_command=command, proofs=proofs)


def _sifted(
    found: list[tuple[Rule, Finding]],
    abstained: list[Abstention],
    checked: list[str],
    config: Config,
    leads: frozenset[str],
) -> Findings:
    """Sets aside what was silenced or rests on a refuted base; takes severity from what rests on a doubted one."""
    silence = config.silenced
    silenced = [Suppressed(finding, silence[rule.id]) for rule, finding in found if rule.id in silence]
    heard = [(rule, finding) for rule, finding in found if rule.id not in silence]
    against = _Against(heard)
    kept: list[Finding] = []
    suppressed: list[Suppressed] = []
    for rule, finding in heard:
        bases = () if rule.on_measurement else rule.rests_on
        if (by := against.refuting(bases)) is not None:
            suppressed.append(Suppressed(finding, by))
        elif finding.ceiling_percent is not None and finding.ceiling_percent < LEAST_GAIN_PERCENT:
            suppressed.append(Suppressed(finding, "K14"))
        else:
            kept.append(against.doubted(finding, bases))
    kept.sort(key=lambda finding: against.rank(finding, leads))
    ordered = overlap.specific_first(kept, leads)
    return Findings(tuple(ordered), tuple(suppressed), tuple(silenced), tuple(abstained), tuple(checked))


class _Against:
    """What the findings on the measurement say against the others."""

    def __init__(self, heard: list[tuple[Rule, Finding]]) -> None:
        self.refuted: dict[str, str] = {}
        self.doubts: dict[str, list[tuple[Rule, Finding]]] = {}
        self.used: set[str] = set()
        """Ids of rules that set a finding aside or doubt one that is shown."""
        for rule, finding in sorted(heard, key=lambda pair: SEVERITIES.index(pair[1].severity)):
            for base in rule.refutes if finding.refutes is None else finding.refutes:
                self.refuted.setdefault(base, rule.id)
            for base in rule.doubts if finding.doubts is None else finding.doubts:
                self.doubts.setdefault(base, []).append((rule, finding))

    def refuting(self, bases: Iterable[str]) -> str | None:
        """The id of a rule that refutes one of these bases."""
        by = next((self.refuted[base] for base in bases if base in self.refuted), None)
        if by is not None:
            self.used.add(by)
        return by

    def doubted(self, finding: Finding, bases: Iterable[str]) -> Finding:
        """The finding as it stands after the doubts about its bases."""
        doubts = [doubt for base in bases for doubt in self.doubts.get(base, ())]
        if not doubts:
            return finding
        remarks = {rule.id: f"may not hold: {rule.id}: {rule.remark}" for rule, _ in doubts}
        self.used |= remarks.keys()
        most = max(SEVERITIES.index(MOST_UNDER_DOUBT[against.severity]) for _, against in doubts)
        return replace(
            finding,
            severity=SEVERITIES[max(SEVERITIES.index(finding.severity), most)],
            remarks=(*remarks.values(), *finding.remarks),
            doubted_by=tuple(remarks),
        )

    def rank(self, finding: Finding, leads: frozenset[str]) -> tuple[int, bool, int, bool, float, float, str]:
        """The place of a finding: what speaks against others, then what holds, then what may not hold any more.

        Of equals, what says the same as the verdict comes first, then what gains most for certain, then what may.
        """
        severity = SEVERITIES.index(finding.severity)
        on_measurement = finding.id.startswith("V") or finding.id in self.used
        if finding.severity == "invalid":
            place = 0
        elif on_measurement and finding.severity == "critical":
            place = 1
        else:
            place = 2 if finding.id in self.used else 3
        weak = bool(finding.doubted_by) and finding.severity == "info"
        follows = finding.id not in leads
        return (place, weak, severity, follows, -(finding.sure_percent or 0.0), -(finding.impact_ns or 0.0), finding.id)
