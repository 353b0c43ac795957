"""Findings in the reports and in `reference rules`: every format says the same, in 80 columns, with the user's file."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import sample_runs
from as_json import report
from laid_out import body, report_text
from msgspec import convert
from sample_runs import run_of

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.config import Config
from tracetui.analysis.report.model import AbstainedRow, Evidence, FindingRow, Judged
from tracetui.app.cli.commands.reference.rules import as_json, rules_page
from tracetui.app.cli.main import main
from tracetui.app.reports.content.findings import finding_lines
from tracetui.app.reports.finding_words import evidence_text, gain, missing_by_reason
from tracetui.app.reports.layout import Layout
from tracetui.app.text.exit_codes import DONE, USAGE
from tracetui.app.text.fitting import cell_width

FP32, FP16 = str(sample_runs.FP32), str(sample_runs.FP16)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command and returns what it prints."""

    def run(*words: str, code: int = DONE) -> str:
        assert main([*words]) == code
        return capsys.readouterr().out

    return run


def row(**more: Any) -> dict[str, Any]:
    given = {
        "id": "S2", "severity": "critical", "title": "It waits", "impact_us": 1500.0, "ceiling_percent": 40.0,
        "impact_least_us": None, "impact_after_us": None, "where": [], "evidence": [], "formula": "1 of 2",
        "threshold": "above 1",
        "advice": "mend it", "next_command": "",
        "reference": "", "remarks": [], "shared_with": [], "doubted_by": [], "changes": [], "proofs": [], "key": "",
    }  # fmt: skip
    return {**given, **more}


def evidence(value: Any, unit: str, label: str = "") -> dict[str, Any]:
    return {"label": label, "value": value, "unit": unit, "tab": None, "filter": None, "row": None}


def found(*rows: dict[str, Any], **more: Any) -> Judged:
    sets = ("findings_suppressed", "findings_silenced", "findings_abstained", "findings_checked")
    return convert({"findings": list(rows), **{key: [] for key in sets}, **more}, Judged)


def test_every_format_says_the_same(said: Callable[..., str]) -> None:
    data = json.loads(said("report", FP32, "--section", "findings", "--format", "json"))["run"]["traces"][0]
    ids = [finding["id"] for finding in data["findings"]]
    assert ids[:2] == ["S13", "S2"]
    assert data["counts"]["findings"] == len(ids)
    text = said("report", FP32, "--section", "findings")
    assert re.findall(r"^[x!~i] ([A-Z]\d+) ", text, re.MULTILINE) == ids
    markdown = said("report", FP32, "--section", "findings", "--format", "markdown")
    assert re.findall(r"^- \*\*\S+ ([A-Z]\d+) ", markdown, re.MULTILINE) == ids
    table = list(csv.DictReader(io.StringIO(said("report", FP32, "--section", "findings", "--format", "csv"))))
    assert [line["id"] for line in table] == ids
    assert float(table[0]["impact_us"]) == data["findings"][0]["impact_us"]
    asked = {each["id"] for each in data["findings_abstained"]} | set(data["findings_checked"])
    assert asked == {each.id for each in all_rules().values() if each.subject == "run"}


def test_a_limit_cuts_findings_and_their_number_stays(said: Callable[..., str]) -> None:
    data = json.loads(said("report", FP32, "--section", "findings", "--format", "json", "--limit", "1"))
    trace = data["run"]["traces"][0]
    assert len(trace["findings"]) == 1 < trace["counts"]["findings"]
    text = said("report", FP32, "--section", "findings", "--limit", "1")
    assert f"Findings (1 of {trace['counts']['findings']};" in text


def test_findings_come_right_after_the_verdict(said: Callable[..., str]) -> None:
    text = said("report", FP32)
    places = [text.index(words) for words in ("Waits for the CPU", "Findings (", "! S2  Launch", "The step: ")]
    assert places == sorted(places)
    assert "Could not judge" not in text
    assert "Could not judge" in said("report", FP32, "--section", "findings")


def test_the_diff_has_findings_of_two_runs(said: Callable[..., str]) -> None:
    data = json.loads(said("diff", FP32, FP16, "--format", "json"))
    ids = [finding["id"] for finding in data["findings"]]
    asked = {each["id"] for each in data["findings_abstained"]} | set(data["findings_checked"])
    assert asked == {each.id for each in all_rules().values() if each.subject == "pair"}
    assert re.findall(r"^[x!~i] ([A-Z]\d+) ", said("diff", FP32, FP16), re.MULTILINE) == ids
    markdown = said("diff", FP32, FP16, "--format", "markdown")
    assert all(f" {id} " in markdown for id in ids)
    table = said("diff", FP32, FP16, "--format", "csv", "--section", "findings")
    assert [line["id"] for line in csv.DictReader(io.StringIO(table))] == ids


def test_a_finding_reads_as_a_colleague_would_say_it() -> None:
    command = (
        "ncu --set full --kernel-name 'regex:^(scan kernel|gemm)$' --csv --page raw --log-file counters.csv python x"
    )
    lines = finding_lines(found(row(next_command=command, remarks=["V8: it is slowed down"])), "steps 1-3", Layout())
    assert lines == [
        "Findings (1; 0 rules looked)",
        "! S2 critical: It waits",
        "  Gains  at most 1.500 ms of a 3.750 ms step (40.0 %)",
        "  Try    mend it",
        "  Run    ncu --set full --kernel-name 'regex:^(scan kernel|gemm)$' --csv \\",
        "         --page raw --log-file counters.csv python x",
        "  Why    1 of 2",
        "  Mind   V8: it is slowed down",
    ]
    assert finding_lines(found(findings_checked=["S1"]), "steps 1-3", Layout()) == ["Findings (none; 1 rule looked)"]


def test_what_is_set_aside_or_lacking_is_said_where_only_findings_are_asked_for() -> None:
    everything = found(
        row(evidence=[evidence(3.0, "ns", "step")]),
        findings_suppressed=[row(id="S5", by="V9")],
        findings_silenced=[row(id="F1", reason="agreed")],
        findings_abstained=[{"id": "T1", "missing": "the machine's state"}],
    )
    text = " ".join(finding_lines(everything, "steps 1-3", Layout(), whole=True))
    for words in ("Limit  above 1", "Rests  step 3 ns", "(V9)", "(silenced: agreed)", "T1: the machine's state"):
        assert words in text
    assert "1 could not for want of evidence; 2 findings set aside" in text


def test_nothing_in_a_finding_gets_at_the_terminal() -> None:
    nasty = "evil\x1b[31m\u202e\udc80 " + "long" * 40
    bad = row(
        title=nasty, formula=nasty, advice=nasty, next_command=nasty, remarks=[nasty], threshold=nasty,
        evidence=[evidence(nasty, nasty, nasty)],
    )  # fmt: skip
    bad = found(bad, findings_abstained=[{"id": "X1", "missing": nasty}], findings_silenced=[{**bad, "reason": nasty}])
    for page in (Layout(), Layout(ascii=True)):
        for line in finding_lines(bad, "steps 1-3", page, whole=True):
            assert line.isprintable()
            assert cell_width(line) <= 80
            assert line.isascii() or not page.ascii


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (1_500.0, "ns", "1.500 µs"), (12, "", "12"), (0.5, "%", "0.50 %"), (2.5e12, "FLOP", "2.500 TFLOP"),
        (989e12, "FLOP/s", "989 TFLOP/s"), (1.98e9, "Hz", "1.980 GHz"), (4.8e12, "byte/s", "4.800 TB/s"),
        (1024, "byte", "1.000 KiB"), ("registers", "", "registers"), (700.0, "W", "700 W"), (0.85, "x", "0.850 x"),
    ],
)  # fmt: skip
def test_evidence_is_printed_in_the_unit_that_suits_it(value: Any, unit: str, shown: str) -> None:
    assert evidence_text(convert(evidence(value, unit), Evidence)) == shown


def test_gains_are_said_as_far_as_they_are_known() -> None:
    assert gain(convert(row(impact_us=None, ceiling_percent=None), FindingRow)) == ""
    costs = gain(convert(row(ceiling_percent=None), FindingRow))
    assert costs == "Costs at most 1.500 ms per step; what can be gained is not known"


# --- the user's file


def test_the_users_file_is_heard_by_report_diff_and_rules(tmp_path, monkeypatch, capsys) -> None:
    shutil.copy(FP32, tmp_path / "a.json.gz")
    name = next(f"S2.{name}" for name in all_rules()["S2"].thresholds)
    (tmp_path / ".tracetui.toml").write_text(
        f'[thresholds]\n"{name}" = 77\n"S2.moon" = 1\n[silence]\nS12 = "as agreed"\n', encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    for words in (["report", "a.json.gz", "--section", "findings"], ["diff", "a.json.gz", FP32], ["rules"]):
        assert main([*words]) == DONE
        out, err = capsys.readouterr()
        assert "tracetui: warning:" in err
        assert "there is no threshold S2.moon" in err
        assert words[0] == "diff" or "as agreed" in " ".join(out.split())
    main(["report", "a.json.gz", "--section", "findings", "--format", "json"])
    run = json.loads(capsys.readouterr().out)["run"]
    assert any("S2.moon" in warning for warning in run["warnings"])
    assert [(each["id"], each["reason"]) for each in run["traces"][0]["findings_silenced"]] == [("S12", "as agreed")]
    main(["rules", "S2"])
    assert f"{name} = 77 " in capsys.readouterr().out
    main(["rules", "--format", "json"])
    rules = {each["id"]: each for each in json.loads(capsys.readouterr().out)["rules"]}
    assert [limit["yours"] for limit in rules["S2"]["thresholds"] if limit["name"] == name] == [77.0]
    assert rules["S12"]["silenced"] == "as agreed"


def test_a_rule_that_fails_abstains_and_debug_shows_why(monkeypatch, capsys) -> None:
    import tracetui.analysis.findings.engine as engine

    asked = engine._ask

    def ask(declared: Any, *others: Any) -> Any:
        if declared.id == "S6":
            raise ZeroDivisionError("by zero")
        return asked(declared, *others)

    monkeypatch.setattr(engine, "_ask", ask)
    assert main(["report", FP32, "--section", "findings"]) == DONE
    out, err = capsys.readouterr()
    assert "S6: a bug in tracetui: ZeroDivisionError: by zero" in out
    assert "! S2 critical" in out
    assert not err
    assert main(["--debug", "report", FP32, "--section", "findings"]) == DONE
    assert "in ask" in capsys.readouterr().err


# --- tracetui reference rules


def test_rules_are_listed_with_their_thresholds(said: Callable[..., str]) -> None:
    text = said("rules")
    for declared in all_rules().values():
        assert re.search(rf"^  {declared.id} ", text, re.MULTILINE)
        assert all(f" {name} = " in text for name in declared.thresholds)
    assert all(cell_width(line) <= 80 for line in body(text).splitlines())
    assert said("rules", "--ascii").isascii()


def test_a_rule_is_explained(said: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    for declared in all_rules().values():
        text = said("rules", declared.id.lower(), "--ascii")
        assert text.startswith(f"{declared.id}: ")
        assert all(len(line) <= 80 for line in body(text).splitlines())
    assert said("rules", "S2", "--format", "markdown").startswith("### S2: ")
    assert [each["id"] for each in json.loads(said("rules", "S2", "--format", "json"))["rules"]] == ["S2"]
    said("rules", "X1", code=USAGE)


def test_the_page_of_rules_has_every_rule_once_and_its_formulae() -> None:
    page = rules_page()
    for declared in all_rules().values():
        assert page.count(f"### {declared.id}: ") == 1
        assert "\n\n".join(declared.paragraphs) in page
        for name in declared.thresholds:
            assert page.count(f"| `{declared.id}.{name}` |") == 1
    assert "\n\n\n" not in page
    assert as_json(all_rules()["S2"], Config())["silenced"] is None


def test_what_many_rules_miss_is_said_once() -> None:
    """An ncu file has no time line, which most rules need: one line, with how many they are."""
    found = report(run_of("ncu/scan_metrics_raw.csv.gz"), sections=("findings",))["run"]["traces"][0]
    reasons = [row["missing"] for row in found["findings_abstained"]]
    said = missing_by_reason(convert(found["findings_abstained"], list[AbstainedRow]))
    assert [missing for _, missing in said] == list(dict.fromkeys(reasons))
    most = max(reasons, key=reasons.count)
    assert (f"{reasons.count(most)} rules", most) in said
    assert reasons.count(most) > 40
    lines = report_text(report(run_of("ncu/scan_metrics_raw.csv.gz"), sections=("findings",))).splitlines()
    assert sum("a recording with a time line" in line for line in lines) == 1
