"""The engine behind the findings: order, what takes a finding away, what is said of it, what users may change."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sample_runs import recorded, run_of

from tracetui.analysis.findings import catalogue, engine
from tracetui.analysis.findings import config as user_config
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Evidence, Finding, Findings
from tracetui.analysis.findings.declared import changes
from tracetui.analysis.findings.declared.needs import NEEDS
from tracetui.analysis.findings.declared.rule import BASES, Rule, Threshold, looks_for
from tracetui.analysis.findings.engine import BUG, findings_of
from tracetui.analysis.sweeps import model as sweep
from tracetui.parsers import Run, Trace, open_path
from tracetui.parsers.runs.proofs import Claim, Proof

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "vim_tiny"
VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"


@dataclass
class Subject:
    """Something to look at that lacks what it is told to lack."""

    kind: str = "run"
    lacks: dict[str, str] = field(default_factory=dict)

    def missing(self, needs: Iterable[str]) -> str:
        return next((self.lacks[name] for name in needs if name in self.lacks), "")

    def unknown(self, bases: Iterable[str]) -> str:
        return next((self.lacks[name] for name in bases if name in self.lacks), "")


def said(id: str, severity: str = "warning", impact: float | None = None, gain: float | None = None) -> Finding:
    evidence = (Evidence("seen", 3),)
    return Finding(severity, f"{id} is so", evidence, "1 of 2", "above 0", "mend it", id, impact, gain)  # type: ignore[arg-type]


class Made(Rule, frozen=True):
    """A rule with what looks for it."""

    look: Any = None


def made(id: str, answer: Any, **more: Any) -> Made:
    """A rule that answers so, or does what is called."""
    look = answer if callable(answer) else lambda subject, limits: answer
    return Made(id, f"title of {id}", "what it looks for", look=look, **more)


def find(subject: Any, config: Config | None = None, rules: Any = None, on_error: Any = None) -> Findings:
    return engine.find(subject, config, rules, on_error, {id: each.look for id, each in rules.items()})


def rules(*declared: Made) -> dict[str, Made]:
    return {each.id: each for each in declared}


def ids(found: Iterable[Finding]) -> list[str]:
    return [finding.id for finding in found]


def test_a_finding_may_refute_or_doubt_other_bases_than_its_rule() -> None:
    rests = made("K1", said("K1", "critical"), rests_on=("gpu",))
    narrow = replace(said("V17", "warning"), refutes=(), doubts=("host",))
    rule = made("V17", narrow, refutes=("gpu",), doubts=("gpu",), remark="events are missing")
    found = find(Subject(), rules=rules(rule, rests))
    assert [finding.severity for finding in found.found if finding.id == "K1"] == ["critical"]
    assert not found.suppressed
    wide = made("V17", replace(narrow, refutes=("gpu",)), refutes=(), doubts=(), remark="")
    other = made("S1", said("S1", "critical"), rests_on=("steps",))
    found = find(Subject(), rules=rules(wide, rests, other))
    assert [each.by for each in found.suppressed] == ["V17"]
    assert ids(found.found) == ["S1", "V17"], "what refutes a base, but not the recording, stands last"


def test_the_users_threshold_is_the_one_in_force() -> None:
    def look(subject: Subject, limits: Any) -> Finding | None:
        return said("S2") if limits.idle_percent < 45 else None

    declared = made("S2", look, thresholds={"idle_percent": Threshold(50, "%", "idle", own=True)})
    assert not find(Subject(), rules=rules(declared)).found
    assert find(Subject(), Config(thresholds={"S2.idle_percent": 40}), rules(declared)).found
    assert not find(Subject(), Config(thresholds={"S1.idle_percent": 40}), rules(declared)).found
    with pytest.raises(AttributeError):
        _ = declared.limits({}).idle


@pytest.mark.parametrize(
    ("name", "words", "ids_of"),
    [
        ("jax/h200.trace.json.gz", "JAX's profiler does not record", {"S1", "S2", "K14"}),
        ("ncu/vim_full_raw.csv.gz", "measured single launches", {"K12"}),
    ],
)
def test_recordings_that_tell_little_of_the_run_judge_nothing_of_it(name: str, words: str, ids_of: set[str]) -> None:
    found = findings_of(Facts(open_path(recorded(name))))
    assert {each.id for each in found.abstained if words in each.missing} >= ids_of
    assert not {each.id for each in found.found} & {"S1", "S2", "S13", "K12", "K14", "F1", "F6"}
    of_kernels = [each for each in found.found if each.id[0] not in "VT"]
    assert all(each.severity == "info" for each in of_kernels if each.id != "K10")
    # K10 warns of the profiled kernel time, and promises nothing for the step
    assert all(each.ceiling_percent is None for each in of_kernels if each.id == "K10")


def test_a_memory_snapshot_judges_no_times() -> None:
    found = findings_of(Facts(open_path(recorded("memory/gpt_memory_snapshot.pickle.gz"))))
    assert not {each.id[0] for each in found.found} - set("VG")


def test_a_finding_has_the_changes_that_fit_its_run_a_command_and_what_was_proved_of_it() -> None:
    """The sample is a network that does not train, in fp32."""
    of_it, of_another = Claim(id="F1"), Claim(id="F2")
    proofs = (Proof("--compile", claims=(of_another, of_it)), Proof("--dtype tf32", claims=(of_another,)))
    run = replace(open_path(SAMPLE, cache=False), proofs=proofs)
    declared = (changes.FUSED_OPTIMIZER, changes.TF32, changes.COMPILED)
    fitting, command = ["--dtype tf32", "--compile"], "tracetui profile vim_tiny --tool all --dtype tf32"
    for given, answer, options, next_command in (
        (declared, said("F1"), fitting, command),
        (declared, replace(said("F1"), next_command="nsys profile"), fitting, "nsys profile"),
        ((changes.FUSED_OPTIMIZER,), said("F1"), [], ""),
        ((), said("F1"), [], ""),
    ):
        (finding,) = find(Facts(run), rules=rules(made("F1", answer, changes=given))).found
        assert [change.text for change in finding.changes] == options
        assert finding.next_command == next_command
        assert finding.proofs == ((proofs[0], of_it),)
    (unproved,) = find(Facts(replace(run, proofs=())), rules=rules(made("F1", said("F1"), changes=declared))).found
    assert unproved.proofs == ()
    assert find(Subject(), rules=rules(made("F1", said("F1"), changes=declared))).found[0].changes == ()


def test_a_rule_that_fails_takes_no_other_down() -> None:
    def divides(subject: Subject, limits: Any) -> Finding:
        raise ZeroDivisionError("by zero")

    def breaks_off(subject: Subject, limits: Any) -> Iterable[Finding]:
        yield said("S3")
        raise KeyError("percent")

    class Broken(Subject):
        def missing(self, needs: Iterable[str]) -> str:
            if tuple(needs):
                raise ValueError("no such frame")
            return ""

    declared = rules(
        made("S2", divides), made("S3", breaks_off), made("S4", said("S4"), needs=("steps",)), made("S5", said("S5"))
    )
    errors: list[Exception] = []
    found = find(Broken(), rules=declared, on_error=errors.append)
    assert ids(found.found) == ["S5"]
    assert found.checked == ("S5",)
    assert [each.id for each in found.abstained] == ["S2", "S3", "S4"]
    assert found.abstained[0].missing == f"{BUG}: ZeroDivisionError: by zero"
    assert [type(error) for error in errors] == [ZeroDivisionError, KeyError, ValueError]


def test_a_rule_that_can_not_be_is_not_declared() -> None:
    with pytest.raises(ValueError, match="moon"):
        Rule("X1", "title", "why", rests_on=("moon",))
    with pytest.raises(ValueError, match="galaxy"):
        Rule("X1", "title", "why", subject="galaxy")
    catalogue.looks("run")
    with pytest.raises(ValueError, match="two functions"):
        looks_for(all_rules()["S2"])(lambda facts, limits: None)


# --- what users may change


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / user_config.FILE).write_text(text, encoding="utf-8")
    return folder


def known_threshold() -> str:
    return next(f"{each.id}.{name}" for each in all_rules().values() for name in each.thresholds)


def test_the_users_file_is_found_beside_the_recording_or_above(tmp_path: Path) -> None:
    name, id = known_threshold(), next(iter(all_rules()))
    folder = write(tmp_path / "runs", f'[thresholds]\n"{name}" = 40\n[silence]\n{id} = "as agreed"\n')
    other = write(tmp_path / "work", "")
    trace = folder / "deep" / "trace.json"
    trace.parent.mkdir()
    trace.touch()
    for paths in ((folder,), (trace,), (trace.parent, other), (folder, other)):
        found = user_config.load(*paths)
        assert found.thresholds == {name: 40.0}
        assert found.silenced == {id: "as agreed"}
        assert not found.problems
    assert user_config.load(other, folder) == Config()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[thresholds]\nS2 = 1\n", "there is no threshold S2"),
        ('[thresholds]\n"S2.moon" = 1\n', "there is no threshold S2.moon"),
        ('[thresholds]\n"%s" = "much"\n', "is no number"),
        ('[thresholds]\n"%s" = true\n', "is no number"),
        ('[silence]\nX99 = "why"\n', "there is no rule X99"),
        ("[silence]\nV9 = true\n", "only be silenced with a reason"),
        ('[silence]\nV9 = "  "\n', "only be silenced with a reason"),
        ("thresholds = 3\n", "[thresholds] is no table"),
        ("[thresholds\n", user_config.FILE),
    ],
)
def test_what_is_wrong_in_it_is_said_and_the_rest_holds(tmp_path: Path, text: str, problem: str) -> None:
    text = text.replace("%s", known_threshold())
    good = '[silence]\nV12 = "known"\n' if "[silence]" not in text and "[thresholds\n" not in text else ""
    found = user_config.load(write(tmp_path, text + good))
    assert len(found.problems) == 1
    assert problem in found.problems[0]
    assert str(tmp_path) in found.problems[0]
    assert not found.thresholds
    assert found.silenced == ({"V12": "known"} if good else {})


# --- the rules there are


def test_every_rule_is_whole() -> None:
    for declared in all_rules().values():
        assert re.fullmatch(r"[VSTFKGD]\d+", declared.id), declared
        assert declared.paragraphs[0], "its explanation in docs/reference/rules.md"
        assert declared.compared_with(declared.limits({})).count("{") == 0, declared
        assert declared.id in catalogue.looks(declared.subject), "nothing looks for it"
        known = set(sweep.NEEDS if declared.subject == "sweep" else NEEDS)
        assert set(declared.needs) <= known, declared
        assert set(declared.rests_on) <= set(BASES), declared
        assert all(limit.about and limit.value == limit.value for limit in declared.thresholds.values()), declared
        assert not (declared.doubts or declared.refutes) or declared.id.startswith(("V", "T")), declared
        assert bool(declared.doubts) == bool(declared.remark), declared
        if not declared.id.startswith(("V", "T", "D")):
            assert declared.rests_on, "what it rests on decides whether it stands"


def test_a_finding_whose_place_can_not_be_told_stands_without_it(recording, monkeypatch) -> None:
    def fails(*_: object) -> tuple[()]:
        raise LookupError("no frame")

    trace, errors = recording(VIM), list[Exception]()
    facts = Facts(Run(trace.source.path, (trace,)), trace)
    before = findings_of(facts)
    monkeypatch.setattr(engine, "of_finding", fails)
    after = findings_of(facts, on_error=errors.append)
    assert ids(after.found) == ids(before.found)
    assert any(each.where for each in before.found)
    assert not any(each.where for each in after.found)
    assert {str(error) for error in errors} == {"no frame"}
    assert ids(findings_of(facts).found) == ids(before.found)


def test_rules_abstain_in_words_where_there_is_nothing_to_look_at() -> None:
    of_system, of_framework = "S1 S2 S5 S6 S7 S8 S10 S12", "F1 F2 F4 F6 F7 F11 F12"
    for name, rules in (
        ("chrome/forms/cpu_only_rank34.json.gz", of_system),
        ("ncu/vim_full_raw.csv.gz", of_system),
        ("memory/gpt_memory_snapshot.pickle.gz", of_system),
        ("chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz", of_framework),
        ("ncu/vim_basic_stdout_details.csv.gz", of_framework),
    ):
        missing = {each.id: each.missing for each in findings_of(Facts(run_of(name))).abstained}
        assert all(missing.get(rule) for rule in rules.split()), name


def test_the_worst_of_a_launch_bound_run_is_that_it_is_launch_bound(recording: Callable[[str], Trace]) -> None:
    trace = recording(VIM)
    found = findings_of(Facts(Run(trace.source.path, (trace,)), trace))
    other, first = found.found[:2]
    assert (other.id, first.id) == ("S13", "S2")
    assert first.severity == "critical"
    assert first.ceiling_percent == pytest.approx(44.4, abs=0.2)  # short ways between launches; the long ones are S13's
    assert first.sure_percent == pytest.approx(44.4, abs=0.2)
    assert "CUDA graphs" in first.title
    assert "F1" not in ids(found.found)


def test_of_counters_beside_a_time_line_only_the_file_is_judged() -> None:
    run = open_path(recorded(VIM), recorded("ncu/vim_full_raw.csv.gz"))
    (counters,) = run.of_kind("ncu")
    beside = findings_of(Facts(run, counters))
    alone = findings_of(Facts(Run(counters.source.path, (counters,)), counters))
    asked = {each.id for each in beside.abstained} | set(beside.checked)
    assert asked
    assert all(id.startswith("V") for id in asked)
    assert len(asked) < len(alone.checked) + len(alone.abstained)
