"""Findings that are about the same work: which they are, and what each gains after the others."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judged import find
from made_run import ADD, HGEMM, SGEMM, TO_HALF, Made, facts_of
from sample_runs import recorded

from tracetui.analysis.findings import engine
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core import gain
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding, Findings
from tracetui.analysis.findings.core.turns import in_turns
from tracetui.analysis.report.findings import finding_row
from tracetui.app.reports.finding_words import details, in_turn, page_base
from tracetui.parsers import open_path


def _finding(id: str, *rows: int, impact: float | None = 1.0) -> Finding:
    return Finding("info", id, (), "", id=id, impact_ns=impact, work=np.array(rows))


def _shared(*found: Finding, duration: list[int]) -> list[tuple[str, ...]]:
    return [finding.shared_with for finding in engine.sharing(found, np.array(duration))]


def test_each_finding_names_the_others_that_count_its_time() -> None:
    found = _finding("F7", 0, 1, 2), _finding("F12", 1), _finding("S10", 3)
    assert _shared(*found, duration=[60, 30, 10, 5]) == [("F12",), ("F7",), ()]


def _on_host(id: str, *spans: tuple[int, int], work: tuple[int, ...] = ()) -> Finding:
    begin, end = (np.array(times) for times in zip(*spans, strict=True))
    rows = np.array(work) if work else None
    return Finding("info", id, (), "", id=id, impact_ns=1.0, work=rows, host=(begin, end))


def test_each_finding_names_the_others_that_count_its_time_of_the_host() -> None:
    launches = _on_host("S2", (0, 60), (100, 140))
    waits, fused = _on_host("S7", (55, 75)), _on_host("F7", (0, 50), work=(0,))
    within = _on_host("F12", (0, 25), work=(0,))
    found = _shared(launches, waits, fused, within, duration=[9])
    assert found == [("F7", "F12"), ("S2",), ("S2", "F12"), ("S2", "F7")]


def test_what_is_said_in_general_goes_where_it_is_said_in_particular() -> None:
    rules = {id: all_rules()[id] for id in ("S13", "S29", "S34")}
    general, duration = replace(_on_host("S13", (0, 100)), impact_ns=100.0), np.array([10, 90, 10])

    def left(*particular: Finding) -> list[tuple[str, str]]:
        found = engine._particular(Findings((general, *particular)), rules, duration)
        assert {each.id for each in found.found} == {"S13", *(each.id for each in particular)} - {
            each.finding.id for each in found.suppressed
        }
        return [(each.finding.id, each.by) for each in found.suppressed]

    same = replace(_on_host("S29", (0, 95)), impact_ns=91.0)
    assert left(same) == [("S13", "S29")]
    assert left(replace(same, impact_ns=89.0)) == []
    assert left(replace(same, host=_on_host("S29", (20, 120)).host)) == []
    assert left(replace(same, doubted_by=("V10",))) == []
    # the same of work on the GPU
    general = replace(_on_host("S34", (0, 100)), work=np.array([0, 1]), impact_ns=100.0)
    other = replace(_on_host("S29", (200, 300)), work=np.array([1]), impact_ns=91.0)
    found = engine._particular(Findings((general, other)), rules, duration)
    assert [(each.finding.id, each.by) for each in found.suppressed] == [("S34", "S29")]
    found = engine._particular(Findings((general, replace(other, work=np.array([0, 2])))), rules, duration)
    assert found.suppressed == ()


def test_launches_that_fusing_spares_are_in_s2(tmp_path: Path) -> None:
    made = Made()
    for step in range(4):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        for number in range(20):
            at = begin + 40 * number
            made.launch(ADD if number % 4 else SGEMM, (at, at + 5), (at + 10, at + 14))
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 800, begin + 990)
    rules = {id: all_rules()[id] for id in ("S2", "F7")}
    shared = {one.id: one.shared_with for one in find(made.facts(tmp_path), rules=rules).found}
    assert shared == {"S2": ("F7",), "F7": ("S2",)}


def test_little_in_common_and_findings_without_time_are_not_named() -> None:
    assert _shared(_finding("F7", 0, 1), _finding("F12", 1, 2), duration=[99, 1, 99]) == [(), ()]
    assert _shared(_finding("F7", 0), _finding("K3", 0, impact=None), duration=[9]) == [(), ()]


def test_f7_contains_f12(tmp_path: Path) -> None:
    made, at = Made(), 0.0
    kernels = [(HGEMM, 300.0), (TO_HALF, 200.0), (TO_HALF, 200.0), (ADD, 300.0)]
    for number in range(2):
        begin = at
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + len(kernels), begin + 1000)
        for place, (name, lasts) in enumerate(kernels):
            made.launch(name, (begin + place, begin + place + 1), (at, at + lasts))
            at += lasts
        made.step(number, begin, at)
    rules = {id: all_rules()[id] for id in ("F7", "F12", "F1")}
    shared = {one.id: one.shared_with for one in find(made.facts(tmp_path), rules=rules).found}
    assert shared == {"F7": ("F12",), "F12": ("F7",)}


def test_f1_alone_shares_nothing(tmp_path: Path) -> None:
    made = Made()
    made.step(0, 0, 1000)
    made.host("cuda_runtime", "cudaDeviceSynchronize", 1, 1000)
    made.launch(SGEMM, (0, 1), (1, 1000))
    (found,) = find(made.facts(tmp_path), rules={"F1": all_rules()["F1"]}).found
    assert not found.shared_with


def test_a_recording_in_which_f7_contains_f12() -> None:
    run = open_path(recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"))
    rules = {id: all_rules()[id] for id in ("F7", "F12", "F11")}
    shared = {one.id: one.shared_with for one in find(facts_of(run.main), rules=rules).found}
    assert "F7" in shared["F12"]
    assert "F12" in shared["F7"]
    assert "F12" not in shared["F11"]


# --- gains in turns


def _of(bound: gain.Gain) -> Finding:
    return bound.finding("", (), "")


def _behind_each_other(*kernels: float, calls: float) -> Made:
    """Two steps: kernels of so many µs without a pause, each launched by a call of so many µs, then the host waits."""
    made, at = Made(), 0.0
    for number in range(2):
        begin = end = at
        for place, lasts in enumerate(kernels):
            called = (begin + place * calls, begin + (place + 1) * calls)
            end = max(end, called[1]) + lasts
            made.launch(HGEMM, called, (end - lasts, end))
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + len(kernels) * calls, end)
        made.step(number, begin, end)
        at = end
    return made


def test_what_two_changes_share_the_second_no_longer_gains(tmp_path: Path) -> None:
    facts = _behind_each_other(500, 300, 200, calls=1).facts(tmp_path)
    steps = np.array([0, 3])
    first, second, apart = (
        _of(gain.of_kernels(facts, np.concatenate([steps + place for place in places])))
        for places in ((0, 1), (1, 2), (2,))
    )
    assert [found.impact_ns for found in (first, second, apart)] == [800e3, 500e3, 200e3]
    assert in_turns(facts, (first, second, apart)) == [None, 200e3, 0]
    assert in_turns(facts, (second, first)) == [None, 500e3]
    assert in_turns(facts, (first, replace(second, turn=None), apart)) == [None, None, 200e3]


def test_a_change_gains_more_once_what_hid_it_is_gone(tmp_path: Path) -> None:
    """The host launches for 900 µs what the GPU does in 870: without the kernels little is gained, but all after it."""
    facts = _behind_each_other(290, 290, 290, calls=300).facts(tmp_path)
    calls = facts.trace.host.filter(facts.trace.host["name"] == "cudaLaunchKernel")
    start = calls["start"].to_numpy()
    host = _of(gain.of_calls(facts, start, start + calls["duration"].to_numpy(), np.empty(0, np.int64)))
    work = _of(gain.of_kernels(facts, np.arange(6)))
    assert work.impact_ns == pytest.approx(290e3, abs=20e3)
    assert in_turns(facts, (host, work))[1] == pytest.approx(870e3, abs=40e3)


def test_time_of_the_host_that_two_changes_take_goes_once(tmp_path: Path) -> None:
    made = Made()
    for number in range(2):
        begin = 10_000.0 * number
        made.launch(HGEMM, (begin + 4000, begin + 4010), (begin + 4010, begin + 5000))
        made.step(number, begin, begin + 5000)
    facts, ms = made.facts(tmp_path), 1_000_000

    def without(first_ms: int, last_ms: int) -> Finding:
        begin = np.array([0, 10 * ms])
        return _of(gain.of_calls(facts, begin + first_ms * ms, begin + last_ms * ms, np.empty(0, np.int64)))

    first, second = without(0, 2), without(1, 3)
    assert first.impact_ns == second.impact_ns == 2 * ms
    assert in_turns(facts, (first, second)) == [None, 1 * ms]


def test_the_first_page_says_what_is_left_of_a_gain(tmp_path: Path) -> None:
    facts = _behind_each_other(500, 300, 200, calls=1).facts(tmp_path)
    bound = _of(gain.of_kernels(facts, np.array([1, 4])))
    said = {left: details(finding_row(replace(bound, after_ns=left)))[-1] for left in (300e3, 100e3, 0.0)}
    assert [text.partition("(30.0 %)")[2] for text in said.values()] == [
        "", "; after those above at most 100.0 µs", "; after those above nothing",
    ]  # fmt: skip
    row = finding_row(replace(bound, after_ns=100e3))
    # words give way where it is narrow
    named = page_base([row])
    assert [details(row, width=width, named=named)[-1] for width in (80, 67, 61)] == [
        "Gains at most 300.0 µs (30.0 %); after those above at most 100.0 µs",
        "Gains at most 300.0 µs (30.0 %); after those above at most 100.0 µs",
        "Gains at most 300.0 µs (30.0 %); after those above ≤ 100.0 µs",
    ]
    # in ASCII, whose sign is wider, too
    assert (
        details(row, width=61, named=named, ascii=True)[-1]
        == "Gains at most 300.0 us (30.0 %); after those <= 100.0 us"
    )
    # those above took away what hid it
    assert in_turn(finding_row(replace(bound, after_ns=400e3))) == "more after those above, at most 400.0 µs"


@pytest.mark.parametrize("name", ["pairs/unet_nchw", "causes/segmentation", "planted/cpu_opt"])
def test_gains_in_turns_are_no_more_than_the_step(name: str) -> None:
    found = find(facts := Facts(open_path(recorded(name)))).found
    known = [finding for finding in found if finding.turn is not None and finding.impact_ns]
    assert len(known) > 1
    assert sum(finding.after_ns is not None for finding in known) > 1
    assert (known[0].impact_ns or 0) + sum(finding.after_ns or 0 for finding in known) <= facts.page_step.ns * 1.001
