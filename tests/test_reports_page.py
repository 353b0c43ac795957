"""docs/report.md: each command of reports 000 and 002 prints what the page shows, and each recommendation is found."""

import re
import shlex
from pathlib import Path

import pytest
from judged import find
from sample_runs import run_of
from test_torch_tb_tables import GOLDENS, case_of

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.app.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
SECTIONS = {
    title[:3]: text for title, text in re.findall(r"^## (\d.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
SHOWN = re.compile(r"```console\n\$ (tracetui [^\n]*)\n(.*?)```", re.DOTALL)
EXAMPLES = [(command, shown) for number in ("000", "002") for command, shown in SHOWN.findall(SECTIONS[number])]
SUBJECTS = {
    "low utilization": {"S1", "S2", "S13", "S19", "S5", "S7", "S14"},
    "Tensor Cores eligible": {"F1", "F2"},
}
"""What torch-tb-profiler's recommendations on these recordings are about, and the findings that stand for them."""


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=lambda text: text[:60])
def test_a_command_prints_what_the_page_shows(command, shown, monkeypatch, capsys) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    parts = [part.strip("\n") for part in re.split(r"^…$", shown, flags=re.MULTILINE) if part.strip()]
    assert parts
    for part in parts:
        assert f"{part}\n" in printed


def test_every_rule_that_the_page_names_exists() -> None:
    known = all_rules()
    for number in ("000", "002"):
        named = set(re.findall(r"\b([SFKGV]\d{1,2})\b", re.sub(r"```.*?```", "", SECTIONS[number], flags=re.DOTALL)))
        assert len(named) > 10
        assert named <= set(known)


@pytest.mark.parametrize("name", ["deit_small_train_bf16_bs32", "vim_tiny_fp16_bs4"])
def test_what_torch_tb_recommends_is_a_finding_here(name: str) -> None:
    """Or is set aside, since it gains nothing, or the kernels do use tensor cores, by names that it does not know."""
    said = case_of(name).golden["recommendations"]
    facts = Facts(run_of(GOLDENS[name]))
    found = find(facts, rules={id: all_rules()[id] for id in sorted(set[str]().union(*SUBJECTS.values()))})
    ids = {one.id for one in found.found} | {one.finding.id for one in found.suppressed}
    subjects = [subject for subject in SUBJECTS if subject in said]
    assert subjects
    for subject in subjects:
        used = subject == "Tensor Cores eligible" and facts.kernels["tensor_cores"].any()
        assert ids & SUBJECTS[subject] or used, subject
