"""Runs the rules on the measurement first, then the others, which stand on what the first left standing.

A finding on the measurement *refutes* bases or *doubts* them. What rests on a refuted base is set aside. What rests on
a doubted one is at most `MOST_UNDER_DOUBT`, says so before anything else, and comes after what speaks against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core import change, overlap
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import SEVERITIES, Abstention, Finding, Findings, Suppressed
from tracetui.analysis.findings.core.rule import Limits, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.findings.core.facts import Subject
    from tracetui.analysis.findings.core.finding import Severity

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
    return _with_overlaps(subject, _sifted(found, abstained, checked, config, getattr(subject, "leads", frozenset())))


def _with_overlaps(subject: Subject, said: Findings) -> Findings:
    if not any(finding.work is not None or finding.host is not None for finding in said.found):
        return said
    # only rules on one recording know its GPU work
    duration = subject.trace.device["duration"].fill_null(0).to_numpy()  # type: ignore[attr-defined]
    return replace(said, found=overlap.told(said.found, duration))


def _ask(declared: Rule, subject: Subject, config: Config | None) -> list[Finding | Abstention]:
    if missing := subject.missing(declared.needs):
        return [Abstention(declared.id, missing)]
    if not _is_validity(declared) and (unknown := subject.unknown(declared.rests_on)):
        return [Abstention(declared.id, unknown)]
    return [
        _with_changes(declared, subject, one) for one in _listed(declared.look(subject, limits_of(declared, config)))
    ]


def _with_changes(declared: Rule, subject: Subject, answer: Finding | Abstention) -> Finding | Abstention:
    """A finding with the options that do what it advises, its command, and what was proved of it."""
    if not isinstance(answer, Finding) or not isinstance(subject, Facts):
        return answer
    given = change.fitting(declared.changes, subject)
    command = answer.next_command or (change.command(subject, given[0]) if given else "")
    proofs = tuple((proof, claim) for proof in subject.run.proofs for claim in proof.claims if claim.id == answer.id)
    return replace(answer, changes=given, next_command=command, proofs=proofs)


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
    found: list[tuple[Rule, Finding]],
    abstained: list[Abstention],
    checked: list[str],
    config: Config | None,
    leads: frozenset[str],
) -> Findings:
    """Sets aside what was silenced or rests on a refuted base; takes severity from what rests on a doubted one."""
    silence = config.silenced if config else {}
    silenced = [Suppressed(finding, silence[rule.id]) for rule, finding in found if rule.id in silence]
    heard = [(rule, finding) for rule, finding in found if rule.id not in silence]
    against = _Against(heard)
    kept: list[Finding] = []
    suppressed: list[Suppressed] = []
    for rule, finding in heard:
        bases = () if _is_validity(rule) else rule.rests_on
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
        doubts = {rule.id: (rule, against) for base in bases for rule, against in self.doubts.get(base, ())}
        if not doubts:
            return finding
        self.used |= doubts.keys()
        most = max(SEVERITIES.index(MOST_UNDER_DOUBT[against.severity]) for _, against in doubts.values())
        said = [f"may not hold: {rule.id}: {rule.remark}" for rule, _ in doubts.values()]
        return replace(
            finding,
            severity=SEVERITIES[max(SEVERITIES.index(finding.severity), most)],
            remarks=(*said, *finding.remarks),
            doubted_by=tuple(doubts),
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
