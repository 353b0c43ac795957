"""Faults of measurement that were put into sound recordings: each is named, and no advice stands on what it damaged."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chosen import pairs
from judged import find
from made_run import Made, look
from perturbed import FAULTS, _shifted, rewritten
from sample_runs import OUTSIDE, VIM, recorded, run_of

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Findings
from tracetui.analysis.findings.verdict import verdict
from tracetui.parsers import Run, Trace, open_path

OWN = (
    "small_vit_train.pt.trace.json.gz",
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz",
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/cudagraph_replay.trace.json.gz",
    "gpt_clean/trace.pt.trace.json.gz",
    "nsys/gpt_small_ctx256.sqlite.gz",
    "nsys/vim_tiny_fp32_bs4.sqlite.gz",
    "nsys/graph_node.sqlite.gz",
    "ops/ops.sqlite.gz",
    "ops/ops.trace.json.gz",
)
OTHERS = (
    "chrome/hta_trace_diff/control.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
    "public/luatil_05.json.gz",
    "public/tl_b200_eager.json.gz",
    "public/tl_vllm_piecewise.json.gz",
    "ranks4/ddp_gpu/light/rank0.pt.trace.json.gz",
    "ranks4/ddp_host/rich/rank1.pt.trace.json.gz",
    "ranks4/fsdp/light/rank2.pt.trace.json.gz",
)
"""Of others, or too large to be copied; where present. Thresholds were set without the public ones and `ranks4`."""
NAMES = {
    "V9": "no kernel was recorded|none took any time",
    "V10": "begins before its launch.*clock is early",
    "V15": "of the peak of this GPU",
    "V17": "GPU events,? are missing|events can't be read",
    "V19": "clock (is late by|is early by|drifts)",
    "V20": "duplicates",
    "V21": "A duration that can't be|several things at once",
    "V22": "shorter than any kernel can be",
    "V23": "durations are whole (milli|micro)seconds",
    "V24": "2 processes launched the GPU work",
    "V32": "of the GPU time was launched by nothing in this file",
    "V6": "The first (light )?step is a warm-up",
    "T2": "The GPU (was slowed down|sped up)",
}
"""How the title of each rule names its cause."""
NEW = frozenset(NAMES) - {"V6"}
"""What no sound recording may set off; a first step may really be a warm-up."""


def judged(trace: Trace, letters: str = "VSTFKG", only: frozenset[str] | None = None) -> Findings:
    """What the rules of these letters find; of `only` some if what is asked is what these say themselves.

    Whether a finding on the measurement (V) stands is not for other rules to say (`engine`).
    """
    rules = {id: rule for id, rule in all_rules("run").items() if id[0] in letters and (only is None or id in only)}
    return find(Facts(Run(trace.source.path, (trace,))), rules=rules)


@cache
def sound(name: str) -> Trace:
    if not name.startswith(("public", "ranks4")):
        return run_of(name).traces[0]
    if not (OUTSIDE / name).exists():
        pytest.skip(f"{name} is not here")
    return open_path(OUTSIDE / name).traces[0]


def named(found: Findings, by: frozenset[str]) -> list[str]:
    """The findings of these rules, each of which must name its cause."""
    return [each.id for each in found.found if each.id in by and re.search(NAMES[each.id], each.title)]


@pytest.mark.parametrize(("name", "fault"), pairs(OWN, FAULTS, 6))
def test_a_fault_is_named_and_no_advice_stands_on_what_it_damaged(name: str, fault: str) -> None:
    made = FAULTS[fault].make(sound(name))
    if made is None:
        pytest.skip("makes no sense for this recording")
    found = judged(made, only=None if FAULTS[fault].damaged else FAULTS[fault].noticed_by)
    by = named(found, FAULTS[fault].noticed_by)
    assert by, [each.title for each in found.found]
    if "dropped" in fault:
        assert {each.severity for each in found.found if each.id == "V17"} == {"invalid"}
    rules = all_rules("run")
    standing = [
        (each.id, each.severity)
        for each in found.found
        if each.id[0] not in "VT" and each.severity != "info" and FAULTS[fault].damaged & set(rules[each.id].rests_on)
    ]
    assert not standing
    if refuting := [each for each in found.found if each.severity == "invalid"]:
        assert found.found[0] is refuting[0], "what refutes the measurement comes first"
    doubted = [bool(each.doubted_by) for each in found.found if each.impact_ns and each.severity != "invalid"]
    assert doubted == sorted(doubted), "what something doubts comes after what nothing doubts"


@pytest.mark.parametrize(("name", "fault"), pairs(OTHERS, FAULTS, 4))
def test_a_fault_is_named_in_recordings_of_others(name: str, fault: str) -> None:
    if (made := FAULTS[fault].make(sound(name))) is None:
        pytest.skip("makes no sense for this recording")
    by = FAULTS[fault].noticed_by
    found = judged(made, "VT", only=by | {"V19"} if all(id.startswith("V") for id in by) else None)
    if "clock" in fault and "V19" in {each.id for each in found.abstained}:
        pytest.skip("nothing in this recording ties the GPU's clock to the host's")
    assert named(found, by), [each.title for each in found.found]


@pytest.mark.parametrize("name", [*OWN, *OTHERS])
def test_a_sound_recording_sets_nothing_off(name: str) -> None:
    # what doubts nothing is for information: nsys's own warning in nearly every export
    said = [each for each in judged(sound(name), "VT").found if (each.refutes, each.doubts) != ((), ())]
    found = {each.id for each in said} & NEW
    old = name.startswith(("chrome/hta_trace_diff", "chrome/kineto_samples"))
    assert found == ({"V23"} if old else set()), "torch wrote whole microseconds until 2022, which is said"


def test_a_clock_that_is_early_by_little_more_than_its_limit_is_named() -> None:
    """The faults above are of milliseconds, which a limit ten times as high would still see."""
    limit = all_rules("run")["V19"].thresholds["early_us"].value
    trace = sound("chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz")  # its program waits for all of its work
    for times, by in ((3, ["V19"]), (0, [])):
        made = _shifted(trace, lambda place, ns=1000 * limit * times: 0 * place - ns)
        assert made is not None
        assert named(judged(made, "V", only=frozenset({"V19"})), frozenset({"V19"})) == by


def test_the_samples_set_nothing_off() -> None:
    run = open_path(VIM)
    for trace in run.traces:
        if trace.has_timeline:
            said = [each for each in judged(trace, "VT").found if (each.refutes, each.doubts) != ((), ())]
            assert not {each.id for each in said} & NEW


@pytest.mark.parametrize("name", OWN)
def test_work_of_another_program_changes_no_verdict(name: str) -> None:
    trace = replace(sound(name), collectives=sound(name).collectives.clear())  # a fault leaves none
    made = FAULTS["another program's work"].make(trace)
    assert made is not None
    ours, theirs = (Facts(Run(each.source.path, (each,))).verdict for each in (trace, made))
    assert (theirs.kind, theirs.host_free_ns, theirs.kernels_free_ns) == (
        ours.kind, ours.host_free_ns, ours.kernels_free_ns,
    )  # fmt: skip


def test_what_was_rounded_or_doubled_a_little_only_says_so() -> None:
    trace = sound("gpt_clean/trace.pt.trace.json.gz")
    before = {each.id: each.severity for each in judged(trace).found if each.id[0] not in "VT"}
    rounded = FAULTS["whole microseconds"].make(trace)
    assert rounded is not None
    after = {each.id: each.severity for each in judged(rounded).found if each.id[0] not in "VT"}
    assert after == before


def _other_process(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, and those of a second process, as a script that joins two files makes it."""
    moved = [
        {**event, "pid": event["pid"] + 5000 if event["pid"] > 100 else event["pid"], "ts": event["ts"] + 700}
        for event in events
        if event.get("ph") == "X" and isinstance(event.get("pid"), int)
    ]
    return [*events, *moved]


@pytest.mark.parametrize(
    ("change", "by"),
    [(lambda events: [*events, *events], "V20"), (_other_process, "V24")],
    ids=["the file twice", "two processes"],
)
def test_faults_of_files_are_named(tmp_path: Path, change: Any, by: str) -> None:
    trace = rewritten(recorded("small_vit_train.pt.trace.json.gz"), tmp_path, change)
    assert named(judged(trace, "VT", only=frozenset({by})), frozenset({by}))


def _without_a_part(events: list[dict[str, Any]], *, in_a_row: bool) -> list[dict[str, Any]]:
    """The events without a quarter of the kernels of a step and their launches; in a row, or every fourth."""
    marks = [event for event in events if str(event.get("name")).startswith("ProfilerStep#")]
    mark = sorted((event for event in marks if event.get("cat") == "user_annotation"), key=lambda event: event["ts"])[1]
    until = mark["ts"] + mark["dur"]
    work = [event for event in events if event.get("cat") == "kernel" and mark["ts"] <= event["ts"] < until]
    work.sort(key=lambda event: event["ts"])
    lost = work[len(work) * 2 // 5 : len(work) * 13 // 20] if in_a_row else work[::4]
    gone = {event["args"]["correlation"] for event in lost}
    return [event for event in events if (event.get("args") or {}).get("correlation", -1) not in gone]


def test_a_step_without_a_part_of_its_launches_is_named(tmp_path: Path) -> None:
    """One that has less to do launches less here and there, and lost nothing."""
    path = recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")
    found = judged(rewritten(path, tmp_path, lambda events: _without_a_part(events, in_a_row=True)))
    assert found.found[0].id == "V17"
    lost = "Launches, and with them GPU events, are missing: 25.0 % of those of step 2"
    assert found.found[0].title == f"{lost}, which has the operators of the others"
    assert not [each for each in found.found if each.id[0] not in "VT"]
    some = judged(rewritten(path, tmp_path, lambda events: _without_a_part(events, in_a_row=False)), "V")
    assert "V17" not in {each.id for each in some.found}


def _without_a_stretch(events: list[dict[str, Any]], around: float, *, silent: bool) -> list[dict[str, Any]]:
    """The events without launches and their work for a while around a step's end, or without any event there."""
    marks = [event for event in events if str(event.get("name")).startswith("ProfilerStep#")]
    mark = sorted((event for event in marks if event.get("cat") == "user_annotation"), key=lambda event: event["ts"])[1]
    end, by = mark["ts"] + mark["dur"], mark["dur"] * around
    inside = [event for event in events if "ts" in event and end - by <= event["ts"] < end + by]
    work = [event for event in inside if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    gone = {event["args"]["correlation"] for event in work}
    lost = {id(event) for event in inside if event.get("ph") != "M" and event not in marks}
    return [
        event for event in events
        if not (id(event) in lost if silent else (event.get("args") or {}).get("correlation", -1) in gone)
    ]  # fmt: skip


@pytest.mark.parametrize(("around", "silent"), [(0.1, False), (0.3, True)])
def test_a_stretch_that_is_lost_over_the_end_of_a_step_is_named(tmp_path: Path, around: float, silent: bool) -> None:
    path = recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")
    found = judged(rewritten(path, tmp_path, lambda events: _without_a_stretch(events, around, silent=silent)))
    title = found.found[0].title
    assert (found.found[0].id, found.found[0].severity) == ("V17", "invalid")
    assert "in steps 2 to 3" in title
    assert title.startswith("Operators" if silent else "Launches")
    assert not [each for each in found.found if each.id[0] not in "VT"]


@pytest.mark.parametrize("paused", [False, True])
def test_a_step_that_does_less_at_its_end_lost_nothing(tmp_path: Path, paused: bool) -> None:
    """As where gradients are accumulated: nothing is silent for as long as what is missing takes, or all steps are."""

    def less(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        cut = [event for event in _without_a_stretch(events, 0.2, silent=True) if "ts" in event]
        marks = [e for e in cut if str(e.get("name")).startswith("ProfilerStep#") and e["cat"] == "user_annotation"]
        marks.sort(key=lambda mark: mark["ts"])
        ends = [mark["ts"] + mark["dur"] for mark in marks]
        done = 0.2 * marks[1]["dur"]
        late = [event for event in cut if event["ts"] >= ends[1] and event not in marks]
        for event in late:  # steps 2 and 3 are shorter by what they do not do
            event["ts"] -= 2 * done
        for at, mark in enumerate(marks):
            mark["ts"] -= done * max(at - 1, 0)
            mark["dur"] -= done * min(at, 1)
        if paused:  # and each waits at its end as long as that takes
            ends = [mark["ts"] + mark["dur"] for mark in marks]
            for event in cut:
                if event not in marks:
                    event["ts"] += sum(2 * done for end in ends if event["ts"] >= end)
            for at, mark in enumerate(marks):
                mark["ts"] += 2 * done * at
                mark["dur"] += 2 * done
        return [event for event in events if "ts" not in event] + cut

    path = recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")
    assert "V17" not in {each.id for each in judged(rewritten(path, tmp_path, less), "V").found}


def test_work_of_one_context_on_two_gpus_is_named(tmp_path: Path) -> None:
    def moved(events: list[dict[str, Any]], *, contexts: bool = False) -> list[dict[str, Any]]:
        for event in events:
            if event.get("cat") == "kernel" and event["args"]["correlation"] % 2:
                event["pid"] = event["args"]["device"] = 3
                event["args"]["context"] += contexts
        return events

    path = recorded("small_vit_train.pt.trace.json.gz")
    found = {each.id: each for each in judged(rewritten(path, tmp_path, moved), "V").found}
    assert found["V15"].title.startswith("Work of one context is on GPUs 0, 3")
    with_own = judged(rewritten(path, tmp_path, lambda events: moved(events, contexts=True)), "V")
    assert not any("one context" in each.title for each in with_own.found)


@pytest.mark.parametrize("name", ["pairs/unet_nchw", "pairs/fp32_mlp"])
def test_work_of_two_gpus_that_waits_in_one_queue_is_named(tmp_path: Path, name: str) -> None:
    def moved(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for number, event in enumerate(event for event in events if event.get("cat") == "kernel"):
            event["args"].pop("context", None)
            if number % 2:
                event["pid"] = event["args"]["device"] = 3
        return events

    (path,) = (each for each in recorded(name).iterdir() if each.name.startswith("trace."))
    found = {each.id: each for each in judged(rewritten(path, tmp_path, moved), "V").found}
    assert found["V15"].title.startswith("Work on GPUs 0, 3 waits in one queue")


@pytest.mark.parametrize("apart", ["", "both at once", "events", "launched late", "processes", "by halves"])
def test_work_of_two_gpus_that_is_not_in_one_queue_is_not(tmp_path: Path, apart: str) -> None:
    """Both work at once, an event makes one wait for the other, or the host launches for one when the other is done.

    Or each GPU has a process of its own, or one works after the other.
    """
    made = Made()
    for number in range(60):
        at = 100.0 * number
        called = at + (99 if apart == "launched late" else number / 1e3)
        ends = at + (190 if apart == "both at once" else 102)
        gpu = number // 30 if apart == "by halves" else number % 2
        made.launch("gemm", (called - 99, called - 98), (at + 2, ends), device=gpu)
    if apart == "events":
        made.host("cuda_runtime", "cudaStreamWaitEvent", 50, 51)
    for number, call in enumerate(event for event in made.events if event["cat"] == "cuda_runtime"):
        call["pid"] += number % 2 if apart == "processes" else 0
    assert bool(look("V15", made.facts(tmp_path)).found) == (apart == "")


@pytest.mark.parametrize(
    ("keys", "factor", "by"), [(("ts", "dur"), 1e-3, "V22"), (("dur",), 1e-6, "V9")], ids=["all times", "durations"]
)
def test_times_in_another_unit_are_told_for_that(tmp_path: Path, keys: tuple[str, ...], factor: float, by: str) -> None:
    def scaled(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**event, **{key: event[key] * factor for key in keys if key in event}} for event in events]

    path = recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")
    first = judged(rewritten(path, tmp_path, scaled)).found[0]
    assert (first.id, first.severity) == (by, "invalid")
    assert "times are not in µs" in first.title
    assert first.advice.startswith("Write times in µs")


def test_a_file_whose_events_cannot_be_read_is_not_valid(tmp_path: Path) -> None:
    def later(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**event, "ts": event["ts"] * 1000} if event.get("ph") != "M" else event for event in events]

    trace = rewritten(recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"), tmp_path, later)
    subject = Facts(Run(trace.source.path, (trace,)))
    assert verdict(subject).sentence.startswith("The recording is not valid: ")
    assert "can't be read: event without a usable timestamp" in verdict(subject).sentence
