"""Runs the rules on the measurement first, then the others, which stand on what the first left standing.

A finding on the measurement *refutes* bases or *doubts* them. What rests on a refuted base is set aside. What rests on
a doubted one is at most `MOST_UNDER_DOUBT`, says so before anything else, and comes after what nothing doubts.
Findings are in the order of their gains (`place`); what the headline says too is set aside, and what a rule says in
general where another says it in particular.
What a finding gains once those above it are made is in `turns`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracetui.analysis.base import intervals
from tracetui.analysis.findings import catalogue
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core import change
from tracetui.analysis.findings.core.facts import Facts, Subject
from tracetui.analysis.findings.core.finding import SEVERITIES, Abstention, Finding, Findings, Severity, Suppressed
from tracetui.analysis.findings.core.turns import in_turns
from tracetui.analysis.findings.core.where import of_finding
from tracetui.analysis.findings.declared.rule import Limits, Rule
from tracetui.parsers.arrays import Ints
from tracetui.parsers.resources import freed_blocks_stay

LEAST_GAIN_PERCENT = 2.0
"""Advice that could gain no more than this share of the step is left out (rule K14)."""
MOST_UNDER_DOUBT: dict[str, Severity] = {
    "invalid": "info", "critical": "info", "warning": "warning", "info": "invalid",
}  # fmt: skip
"""The most that a finding may be if another of this severity doubts what it rests on; one that is ``info`` takes
nothing away."""
LEAST_SHARED_PERCENT = 10.0
"""Findings that share less of their GPU time than this are not named."""
SAME_PERCENT = 90.0
"""From here on two findings are about the same time of the host, or gain the same."""
MOST_PERCENT = 50.0
"""Where another finding tells so much of the time of one that its rule is a part of, that one adds nothing."""
MOST_SHARING = 3
"""How many others a finding names that count the same time."""
BITS = 64
"""More findings than this are not compared; no recording has had so many."""
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
    limit = subject.verdict.kind if isinstance(subject, Facts) and any(rule.limit for rule, _ in found) else ""
    findings = _sifted(found, abstained, checked, config, limit)
    if not any(finding.work is not None or finding.host is not None for finding in findings.found):
        return findings
    # only rules on one recording know its GPU work
    duration = subject.trace.device["duration"].fill_null(0).to_numpy()  # type: ignore[attr-defined]
    findings = _particular(findings, rules, duration)
    placed = tuple(_placed(finding, subject, on_error) for finding in sharing(findings.found, duration))
    if isinstance(subject, Facts):
        after = in_turns(subject, placed)
        placed = tuple(replace(finding, after_ns=ns) for finding, ns in zip(placed, after, strict=True))
    return replace(findings, found=placed)


def _particular(findings: Findings, rules: Mapping[str, Rule], duration: Ints) -> Findings:
    """The findings without those that another one says too, more to the point, of nearly the same time."""
    found, aside = findings.found, list[Suppressed]()
    for place, shared in (*_on_host(found), *_on_gpu(found, duration)):
        mine = found[place]
        rule = rules[mine.id]
        by = [
            found[other].id
            for share, other in sorted(shared, reverse=True)
            if (mine.doubted_by or not found[other].doubted_by)
            and not any(found[other] is each.finding for each in aside)
            and (
                share >= MOST_PERCENT
                if found[other].id in rule.part_of
                else share >= SAME_PERCENT
                and rule.general
                and not rules[found[other].id].general
                and 100 * (found[other].impact_ns or 0) >= SAME_PERCENT * (mine.impact_ns or 0)
            )
        ]
        if by and not any(mine is each.finding for each in aside):
            aside.append(Suppressed(mine, by[0]))
    left = tuple(finding for finding in found if not any(finding is each.finding for each in aside))
    return replace(findings, found=left, suppressed=(*findings.suppressed, *aside))


def _placed(finding: Finding, subject: Subject, on_error: Callable[[Exception], None] | None) -> Finding:
    """The finding with where in the program it is, if it has a gain."""
    if not isinstance(subject, Facts) or not finding.impact_ns or finding.where:
        return finding
    try:
        return replace(finding, where=of_finding(subject, finding))
    except Exception as error:
        if on_error is not None:
            on_error(error)
        return finding


def findings_of(
    facts: Facts, config: Config | None = None, on_error: Callable[[Exception], None] | None = None
) -> Findings:
    """Returns what the rules found in a recording.

    If the run has a time line, its facts include what Nsight Compute or a memory snapshot recorded beside it. Such a
    recording by itself is then checked only by the rules on its file, so that no finding appears twice.
    """
    rules = catalogue.all_rules(facts.kind)
    if not facts.trace.has_timeline and facts.run.main.has_timeline:
        rules = {id: rule for id, rule in rules.items() if rule.on_measurement and not rule.needs}
    with freed_blocks_stay():
        return find(facts, config, rules, on_error)


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
    limit: str,
) -> Findings:
    """Sets aside what was silenced or rests on a refuted base; takes severity from what rests on a doubted one."""
    silenced: list[Suppressed] = []
    heard: list[tuple[Rule, Finding]] = []
    for rule, finding in found:
        if reason := config.silenced.get(stable_key(finding)) or config.silenced.get(rule.id):
            silenced.append(Suppressed(finding, reason))
        else:
            heard.append((rule, finding))
    against = _Against(heard)
    kept: list[Finding] = []
    suppressed: list[Suppressed] = []
    for rule, finding in heard:
        bases = () if rule.on_measurement else rule.rests_on
        if (by := against.refuting(bases)) is not None:
            suppressed.append(Suppressed(finding, by))
        elif finding.ceiling_percent is not None and finding.ceiling_percent < LEAST_GAIN_PERCENT:
            suppressed.append(Suppressed(finding, "K14"))
        elif finding.aside:
            suppressed.append(Suppressed(finding, finding.aside))
        else:
            kept.append(against.doubted(finding, bases))
    # a late rank limits the job, whatever its own step waits for
    of_limit = {rule.id for rule, _ in heard if rule.limit and rule.limit in (limit, "ranks")}
    kept.sort(key=lambda finding: place(finding, of_limit))
    return Findings(tuple(kept), tuple(suppressed), tuple(silenced), tuple(abstained), tuple(checked))


def stable_key(finding: Finding) -> str:
    """The finding's name, the same in every report of the same program.

    It is the rule's id; of a rule that may find several things, such as kernels, with a hash of what this one is about.
    """
    rule = catalogue.RULES.get(finding.id)
    if rule is None or not rule.several:
        return finding.id
    shown = [item.query for item in finding.evidence if item.query is not None]
    about = next((query.row or query.filter for query in shown if query.row or query.filter), None)
    # without a row its title tells, but for the numbers in it
    subject = about or re.sub(r"[\d.,]+", "", finding.title)
    return f"{finding.id}:{hashlib.sha256(subject.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"


class _Against:
    """What the findings on the measurement say against the others."""

    def __init__(self, heard: list[tuple[Rule, Finding]]) -> None:
        self.refuted: dict[str, str] = {}
        self.doubts: dict[str, list[tuple[Rule, Finding]]] = {}
        for rule, finding in sorted(heard, key=lambda pair: SEVERITIES.index(pair[1].severity)):
            for base in rule.refutes if finding.refutes is None else finding.refutes:
                self.refuted.setdefault(base, rule.id)
            for base in rule.doubts if finding.doubts is None else finding.doubts:
                self.doubts.setdefault(base, []).append((rule, finding))

    def refuting(self, bases: Iterable[str]) -> str | None:
        """The id of a rule that refutes one of these bases."""
        return next((self.refuted[base] for base in bases if base in self.refuted), None)

    def doubted(self, finding: Finding, bases: Iterable[str]) -> Finding:
        """The finding as it stands after the doubts about its bases."""
        doubts = [doubt for base in bases for doubt in self.doubts.get(base, ())]
        if not doubts:
            return finding
        remarks = {rule.id: f"may not hold: {rule.id}: {rule.remark}" for rule, _ in doubts}
        most = max(SEVERITIES.index(MOST_UNDER_DOUBT[against.severity]) for _, against in doubts)
        return replace(
            finding,
            severity=SEVERITIES[max(SEVERITIES.index(finding.severity), most)],
            remarks=(*remarks.values(), *finding.remarks),
            doubted_by=tuple(remarks),
        )


def place(finding: Finding, of_limit: Collection[str] = ()) -> tuple[int, bool, bool, bool, float, int, str]:
    """Where a finding stands: what refutes the measurement, then gains, other findings, remarks on the measurement.

    Of gains, those that nothing doubts come first; of these a mode for debugging, then what is about the limit that the
    headline names if that is more than good to know, then each by the most that it promises.
    """
    severity, gain = SEVERITIES.index(finding.severity), finding.impact_ns or 0.0
    if finding.severity == "invalid":
        group = 0
    elif gain:
        group = 1
    else:
        group = 3 if is_remark(finding) else 2
    of_limit = () if finding.severity == "info" else of_limit
    return (group, bool(finding.doubted_by), not finding.first, finding.id not in of_limit, -gain, severity, finding.id)


def is_remark(finding: Finding) -> bool:
    """Whether it is about the measurement alone, and refutes nothing."""
    return finding.id.startswith(("V", "T")) and not finding.impact_ns and finding.severity != "invalid"


def sharing(found: Sequence[Finding], duration: Ints) -> tuple[Finding, ...]:
    """The findings, each with the ids of those that count much of its GPU time, or of its time of the host, too.

    Args:
        found: the findings of one recording.
        duration: how long each row of its device frame lasts, ns.
    """
    ids: dict[int, dict[str, None]] = {}
    for place, shared in (*_on_host(found), *_on_gpu(found, duration)):
        large = sorted((-share, other) for share, other in shared if share >= LEAST_SHARED_PERCENT)[:MOST_SHARING]
        ids.setdefault(place, {}).update(dict.fromkeys(found[other].id for _, other in large))
    return tuple(replace(finding, shared_with=tuple(ids.get(place, ()))) for place, finding in enumerate(found))


def _on_gpu(found: Sequence[Finding], duration: Ints) -> Iterator[tuple[int, list[tuple[float, int]]]]:
    """By place of a finding: the shares of its GPU time, percent, that others count too, and their places."""
    about = [place for place, finding in enumerate(found) if finding.work is not None and finding.impact_ns][:BITS]
    # one bit per finding: rows with the same bits are in the same findings
    bits = np.zeros(duration.size, np.uint64)
    for number, place in enumerate(about):
        bits[found[place].work] |= np.uint64(1 << number)
    kinds, kind = np.unique(bits, return_inverse=True)
    spent = np.bincount(kind, weights=duration, minlength=kinds.size)
    within = [(kinds >> np.uint64(number)) & np.uint64(1) == 1 for number in range(len(about))]
    for rows, place in zip(within, about, strict=True):
        whole = float(spent[rows].sum())
        yield (
            place,
            [
                (100 * float(spent[rows & theirs].sum()) / whole, other)
                for theirs, other in zip(within, about, strict=True)
                if other != place and whole
            ],
        )


def _on_host(found: Sequence[Finding]) -> Iterator[tuple[int, list[tuple[float, int]]]]:
    """The same of the time of the host that they would spare, but for two that are both about GPU work."""
    about = [place for place, finding in enumerate(found) if finding.host is not None and finding.impact_ns][:BITS]
    for place in about:
        mine = found[place].host
        assert mine is not None
        whole = intervals.length(mine)
        shared = []
        for other in about:
            theirs = found[other].host
            both_on_gpu = found[place].work is not None and found[other].work is not None
            if other != place and whole and theirs is not None and not both_on_gpu:
                shared.append((100 * intervals.length(intervals.intersect(mine, theirs)) / whole, other))
        yield place, shared
