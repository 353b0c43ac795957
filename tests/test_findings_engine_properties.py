"""The engine of the findings beside plain rules of what is kept, set aside, doubted and first, with rules anyhow."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from types import SimpleNamespace
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracetui.analysis.findings import engine
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core.finding import HEADLINE, Abstention, Evidence, Finding, Findings, Suppressed
from tracetui.analysis.findings.declared.rule import Rule
from tracetui.analysis.findings.engine import find

WORST_FIRST = ("invalid", "critical", "warning", "info")
LEFT = {  # what is left of each severity under a doubt of each severity
    ("critical", "invalid"): "info", ("critical", "critical"): "info", ("critical", "warning"): "warning",
    ("critical", "info"): "critical", ("warning", "invalid"): "info", ("warning", "critical"): "info",
    ("warning", "warning"): "warning", ("warning", "info"): "warning", ("info", "invalid"): "info",
    ("info", "critical"): "info", ("info", "warning"): "info", ("info", "info"): "info",
    ("invalid", "invalid"): "info", ("invalid", "critical"): "info", ("invalid", "warning"): "warning",
    ("invalid", "info"): "invalid",
}  # fmt: skip
LEAST_GAIN = 2.0
BASES = ("gpu", "host", "steps", "whole")
IDS = ("V1", "V2", "V3", "T1", "S1", "S2", "K1", "K2", "F1")


@dataclass(frozen=True)
class Case:
    """A rule and what it answers; an exception is raised."""

    id: str
    answer: Any = None
    subject: str = "run"
    needs: tuple[str, ...] = ()
    rests_on: tuple[str, ...] = ()
    refutes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        return f"why of {self.id}"

    def look(self, subject: object, limits: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return iter(self.answer) if isinstance(self.answer, list) else self.answer


@dataclass(frozen=True)
class Subject:
    """Something to look at that lacks what it is told to lack; its GPU work is three rows, one of unknown length."""

    kind: str = "run"
    lacks: frozenset[str] = frozenset()
    tells_nothing_of: frozenset[str] = frozenset()
    trace: Any = field(default_factory=lambda: SimpleNamespace(device=pl.DataFrame({"duration": [30, None, 70]})))

    def missing(self, needs: Iterable[str]) -> str:
        return next((f"no {name}" for name in needs if name in self.lacks), "")

    def unknown(self, bases: Iterable[str]) -> str:
        return next((f"nothing of {base}" for base in bases if base in self.tells_nothing_of), "")


def asked(subject: Subject, cases: Collection[Case], config: Config | None = None) -> Findings:
    """What the engine says; the only place here that knows how a rule is declared."""
    declared = {
        case.id: Rule(
            id=case.id, title=case.id, explanation="", subject=case.subject, needs=case.needs, rests_on=case.rests_on,
            refutes=case.refutes, doubts=case.doubts, remark=case.remark,
        )
        for case in cases
    }  # fmt: skip
    return find(subject, config, declared, looks={case.id: case.look for case in cases})


def finding(id: str, severity: str = "warning", **more: Any) -> Finding:
    return Finding(
        id=id, severity=severity, title=f"{id} is so", evidence=(Evidence("seen", 3),), formula="1 of 2",  # type: ignore[arg-type]
        threshold="above 0", advice="mend it", **more,
    )  # fmt: skip


# --- plain rules


def plain(subject: Subject, cases: list[Case], config: Config) -> Findings:
    """Each sentence of the engine's description, one after the other."""
    answered: list[tuple[Case, Finding]] = []
    abstained: list[Abstention] = []
    checked: list[str] = []
    on_measurement = [case for case in cases if case.id[0] == "V"]
    for case in on_measurement + [case for case in cases if case not in on_measurement]:
        if case.subject != subject.kind:
            continue
        answers: list[Any]
        if lacking := [name for name in case.needs if name in subject.lacks]:
            answers = [Abstention(id=case.id, missing=f"no {lacking[0]}")]
        elif case.id[0] != "V" and (untold := [base for base in case.rests_on if base in subject.tells_nothing_of]):
            answers = [Abstention(id=case.id, missing=f"nothing of {untold[0]}")]
        elif isinstance(case.answer, Exception):
            answers = [Abstention(id=case.id, missing=f"a bug in tracetui: KeyError: {case.answer}")]
        else:
            answers = case.answer if isinstance(case.answer, list) else [case.answer] if case.answer else []
        gave_up = [answer for answer in answers if isinstance(answer, Abstention)]
        abstained.extend(gave_up)
        checked.extend([] if gave_up else [case.id])
        answered.extend((case, answer) for answer in answers if isinstance(answer, Finding))
    silenced = tuple(
        Suppressed(said, config.silenced[case.id]) for case, said in answered if case.id in config.silenced
    )
    heard = [(case, said) for case, said in answered if case.id not in config.silenced]
    kept: list[Finding] = []
    suppressed: list[Suppressed] = []
    for case, said in heard:
        bases = () if case.id[0] == "V" else case.rests_on
        refuting = [name for base in bases for name in speakers(heard, base, "refutes")]
        doubting = [name for base in bases for name in speakers(heard, base, "doubts")]
        if refuting:
            suppressed.append(Suppressed(said, refuting[0]))
        elif said.ceiling_percent is not None and said.ceiling_percent < LEAST_GAIN:
            suppressed.append(Suppressed(said, "K14"))
        else:
            doubters = tuple(dict.fromkeys(doubting))
            severity = said.severity
            for other, doubt in heard:
                if other.id in doubters:
                    severity = LEFT[severity, doubt.severity]  # type: ignore[assignment]
            words = tuple(f"may not hold: {name}: why of {name}" for name in doubters)
            kept.append(replace(said, severity=severity, remarks=words + said.remarks, doubted_by=doubters))
    in_order: list[Finding] = []
    for said in kept:
        place = next((i for i, other in enumerate(in_order) if stands_before(said, other)), None)
        in_order.insert(len(in_order) if place is None else place, said)
    shown = engine.sharing(in_order, pl.Series([30, 0, 70]).to_numpy())
    return Findings(shown, tuple(suppressed), silenced, tuple(abstained), tuple(checked))


def speakers(heard: list[tuple[Case, Finding]], base: str, how: str) -> list[str]:
    """Ids of the rules that refute or doubt a base, the one with the worst finding first."""
    speaking = []
    for case, said in heard:
        of_finding = getattr(said, how)
        if base in (getattr(case, how) if of_finding is None else of_finding):
            speaking.append((WORST_FIRST.index(said.severity), len(speaking), case.id))
    return [id for _, _, id in sorted(speaking)]


def stands_before(one: Finding, other: Finding) -> bool:
    """The questions that decide which of two comes first, the first that tells them apart."""
    questions = (
        lambda said: said.severity == "invalid",
        lambda said: said.severity == "invalid" or bool(said.impact_ns),
        lambda said: said.severity == "invalid" or bool(said.impact_ns) or said.id[0] not in "VT",
        lambda said: not said.doubted_by,
        lambda said: said.first,
        lambda said: said.impact_ns or 0,
        lambda said: said.severity == "critical",
        lambda said: said.severity == "warning",
    )
    for question in questions:
        if question(one) != question(other):
            return bool(question(one) > question(other))
    return one.id < other.id


# --- rules anyhow

some_bases = st.lists(st.sampled_from(BASES), max_size=2, unique=True).map(tuple)
percents = st.sampled_from((None, 0.0, 1.0, 1.99, 2.0, 2.01, 50.0))


@st.composite
def some_findings(draw: st.DrawFn, id: str, severity: str) -> Finding:
    own_bases = st.one_of(st.none(), some_bases)
    rows = draw(st.sampled_from((None, None, [0], [0, 2], [1, 2])))
    return finding(
        id,
        severity,
        impact_ns=draw(st.sampled_from((None, 0.0, 1.0, 95.0, 100.0))),
        ceiling_percent=draw(percents),
        first=draw(st.booleans()),
        sure_percent=draw(percents),
        remarks=draw(st.sampled_from(((), ("its own",)))),
        refutes=draw(own_bases),
        doubts=draw(own_bases),
        work=None if rows is None else pl.Series(rows).to_numpy(),
    )


@st.composite
def some_rules(draw: st.DrawFn) -> list[Case]:
    cases = []
    for id in draw(st.lists(st.sampled_from(IDS), unique=True, max_size=7)):
        # all findings of a rule are of the same severity here
        findings = some_findings(id, draw(st.sampled_from(WORST_FIRST)))
        answers = st.one_of(findings, findings, st.just(Abstention(id=id, missing="the rest of it")))
        answer = draw(
            st.one_of(answers, findings, st.lists(answers, max_size=3), st.none(), st.just(KeyError("percent")))
        )
        draw_bases = [draw(some_bases) for _ in range(3)]
        cases.append(
            Case(
                id, answer, draw(st.sampled_from(("run", "run", "run", "run", "pair"))),
                draw(st.lists(st.sampled_from(("api", "power")), max_size=2).map(tuple)), *draw_bases,
            )
        )  # fmt: skip
    return cases


some_lack = st.one_of(st.just(frozenset[str]()), st.frozensets(st.sampled_from(("api", "power")), max_size=1))
some_subjects = st.builds(
    Subject,
    st.just("run"),
    some_lack,
    st.one_of(st.just(frozenset[str]()), st.frozensets(st.sampled_from(BASES), max_size=1)),
)


@given(some_subjects, some_rules(), st.one_of(st.just({}), st.dictionaries(st.sampled_from(IDS), st.just("agreed"))))
def test_what_rules_answer_is_judged_as_the_plain_rules_do(subject, cases, silenced) -> None:
    config = Config(silenced=silenced)
    assert asked(subject, cases, config) == plain(subject, cases, config)


def test_each_doubt_takes_what_the_table_says_and_of_several_the_strongest_counts() -> None:
    resting = {severity: Case("S1", finding("S1", severity), rests_on=("host", "gpu")) for severity in WORST_FIRST}
    for severity, *doubts in product(WORST_FIRST, repeat=4):
        left = max((LEFT[severity, doubt] for doubt in doubts), key=WORST_FIRST.index)
        doubting = [
            Case(id, finding(id, doubt), doubts=(base,))
            for id, doubt, base in zip(("V1", "T1", "V2"), doubts, ("host", "gpu", "gpu"), strict=True)
        ]
        for order in permutations(range(3)) if len(set(doubts)) == 3 else [range(3)]:
            found = asked(Subject(), [resting[severity], *(doubting[place] for place in order)]).found
            assert {one.severity for one in found if one.id == "S1"} == {left}, (severity, doubts, order)


def test_a_gain_below_the_least_is_set_aside_and_the_least_itself_is_kept() -> None:
    for percent, kept in ((None, True), (0.0, False), (1.999, False), (2.0, True), (2.001, True), (100.0, True)):
        found = asked(Subject(), [Case("F1", finding("F1", ceiling_percent=percent))])
        assert (len(found.found), len(found.suppressed)) == ((1, 0) if kept else (0, 1)), percent


def test_each_reason_to_come_first_outweighs_all_the_later_ones() -> None:
    """Of two findings one has a reason, the other every later one; an id breaks the tie."""
    doubt = Case("T1", finding("T1", "warning"), doubts=("host",))
    found = asked(
        Subject(),
        [
            Case("F1", finding("F1", "invalid")),
            Case("V2", finding("V2", "critical")),
            doubt,
            Case("S5", finding("S5", "critical", impact_ns=900.0), rests_on=("host",)),
            Case("S1", finding("S1", "critical")),
            Case("K1", finding("K1", "warning", sure_percent=95.0)),
            Case("K3", finding("K3", "warning", impact_ns=700.0)),
            Case("V1", finding("V1", "info", impact_ns=700.0)),
            Case("S3", finding("S3", "info", impact_ns=800.0)),
            Case("S4", finding("S4", "critical"), rests_on=("host",)),
            Case("K2", finding("K2", "warning")),
        ],
    ).found
    assert [one.id for one in found] == ["F1", "S3", "K3", "V1", "S5", "S1", "K1", "K2", "S4", "V2", "T1"]


def test_what_the_headline_says_or_leads_to_no_act_is_set_aside_and_still_doubts() -> None:
    said = replace(finding("V1", "critical"), aside=HEADLINE)
    found = asked(Subject(), [Case("V1", said, doubts=("host",)), Case("S1", finding("S1"), rests_on=("host",))])
    assert [(one.id, one.doubted_by) for one in found.found] == [("S1", ("V1",))]
    assert [(each.finding.id, each.by) for each in found.suppressed] == [("V1", HEADLINE)]
    assert [one.id for one in found.standing] == ["S1", "V1"]
