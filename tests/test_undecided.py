"""Why it can't be told what a run waits for: said in the verdict, and by V26 where it is the recording's fault."""

from pathlib import Path

import pytest
from judged import find, judged
from made_run import ADD, SGEMM, Made, facts_of
from sample_runs import SAMPLES, opened, run_of

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.dependencies.graph import longest_delay
from tracetui.analysis.dependencies.model import sides
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Abstention, Finding
from tracetui.analysis.selection import Scope

UNTOLD = {
    # name: the reason, words of it in the verdict, and words of what helps; none where no other recording would
    "ranks4/fsdp/rich/rank1.pt.trace.json.gz": (
        "recording_cost",
        "than for other ranks: a step takes 72.35 ms as recorded",
        "ten steps",
    ),
    "nsys/gpt_small_ctx256.sqlite.gz": ("recording_cost", "18.53 ms to 33.50 ms, by what recording added", "Time"),
    "chrome/hta_trace_diff/control.json.gz": ("recording_cost", "misses 3 of 5 steps by more than 3 %, by 2.9", "ten"),
    "public/tl_sglang_decode.json.gz": ("unexplained", "takes 10.44 ms instead of 473.7 ms", "Record all GPUs"),
    "jax/h200.trace.json.gz": ("jax", "does not record the host between launches", "nsys profile"),
    "public/aiu_allreduce_tp4.json.gz": ("launches", "no launches of its GPU work were recorded", "API calls"),
    "public/hta_mtia_inf.json.gz": ("runtime", "which calls of this device's runtime wait", None),
    "ncu/vim_full_raw.csv.gz": ("durations", "Durations alone", None),
    "public/hta_cupti.json.gz": ("kernels", "it launched 77 kernels, and no GPU work was recorded", None),
    "jax_cpu.trace.json.gz": ("no_gpu", "no GPU work is in this recording, and the profiler", None),
    "chrome/forms/cpu_only_rank34.json.gz": ("no_gpu", "no GPU work is in this recording, and the profiler", None),
    "broken/only_metadata_events.json": ("no_gpu", "Nothing was recorded: the file holds no event", None),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_a_recording_that_can_not_tell_says_why_and_what_helps(name: str) -> None:
    why, words, helps = UNTOLD[name]
    facts = Facts(run_of(name))
    assert facts.verdict.kind == "unknown"
    assert facts.verdict.why == why
    assert words in facts.verdict.sentence
    said = judged("V26", facts)
    if helps is None:
        assert isinstance(said, Abstention)
        return
    assert isinstance(said, Finding)
    assert said.title.startswith("CPU or GPU can't be told: ")
    assert helps in said.advice
    assert said.formula not in said.title, "the headline says why"


@pytest.mark.parametrize("name", ["chrome/vim_tiny_fp32_bs4.pt.trace.json.gz", "nsys/graph_whole.sqlite.gz"])
def test_a_recording_that_tells_has_no_reason(name: str) -> None:
    facts = Facts(run_of(name))
    assert facts.verdict.kind != "unknown"
    assert facts.verdict.why is None
    assert judged("V26", facts) is None


def test_what_rests_on_the_host_may_not_hold_where_the_replay_misses() -> None:
    said = {found.id: found for found in find(Facts(run_of("chrome/hta_trace_diff/control.json.gz"))).found}
    assert said["V26"].severity == "warning"
    assert said["F7"].doubted_by == ("V26",)
    assert said["S14"].doubted_by == ()


def _late(folder: Path, *, before: bool = False, late: float = 400) -> Facts:
    """Steps in which the second kernel begins 400 of 1,000 µs after all that was recorded, or as much as is given."""
    made = Made()
    if before:
        made._event("kernel", SGEMM, 0, 500, {"pid": 0, "tid": 9}, {"stream": 9, "device": 0})
    for step in range(5):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        made.launch(ADD, (begin + 1, begin + 5), (begin + 10, begin + 700 - late))
        made.launch(SGEMM, (begin + 6, begin + 10), (begin + 700, begin + 940))
        made.launch(ADD, (begin + 11, begin + 12), (begin + 941, begin + 950))
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 12, begin + 955)
    return made.facts(folder)


def test_a_delay_that_nothing_recorded_explains_is_named(tmp_path: Path) -> None:
    facts = _late(tmp_path, before=False)
    assert facts.verdict.why == "unexplained"
    said = judged("V26", facts)
    assert isinstance(said, Finding)
    assert facts.model is not None
    delay, row = longest_delay(facts.model.graph)
    assert 395_000 <= delay <= 400_000
    assert facts.trace.device["name"][row] == SGEMM
    assert "ampere_sgemm_128x64_tn began" in said.formula
    assert "launched before" not in said.formula


@pytest.mark.parametrize("late", [40, 100, 200])
def test_a_verdict_that_holds_whatever_the_replay_misses_is_told(tmp_path: Path, late: float) -> None:
    facts = _late(tmp_path, late=late)
    assert facts.model is not None
    assert facts.model.unexplained == (1, 2, 3, 4)
    assert facts.model.missed_ns == pytest.approx(1000 * late, abs=1500)
    assert facts.verdict.kind == "gpu"
    assert f"misses 4 of 4 steps by more than 3 %, by {format_ns(facts.model.missed_ns)}" in facts.verdict.sentence
    assert judged("V26", facts) is None


def test_what_a_replay_misses_counts_for_each_side() -> None:
    # a step of 100, with a free host 80, with free GPU work 50
    assert sides(100, 80, 50, None, 0) == {"gpu"}
    assert sides(100, 80, 50, None, 14.9) == {"gpu"}
    assert sides(100, 80, 50, None, 15.1) == {"gpu", "host"}
    assert sides(100, 50, 80, None, 14.9) == {"host"}
    # other ranks in time would leave 60 of it
    assert sides(100, 50, 80, 60, 0) == {"ranks"}
    assert sides(100, 50, 80, 60, 9.9) == {"ranks"}
    assert sides(100, 50, 80, 60, 10.1) == {"ranks", "host"}
    assert sides(100, 80, 50, 100, 15.1) == {"gpu", "host"}, "no rank was waited for"


def test_work_from_before_the_recording_is_named(tmp_path: Path) -> None:
    said = judged("V26", _late(tmp_path, before=True))
    assert isinstance(said, Finding)
    assert "500.0 µs of GPU work was launched before the recording" in said.formula
    assert "synchronize" in said.advice


def test_a_wait_for_what_was_not_recorded_is_named(tmp_path: Path) -> None:
    made = Made()
    for step in range(5):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        made.launch(SGEMM, (begin + 1, begin + 5), (begin + 10, begin + 100))
        made.host("cuda_runtime", "cudaStreamSynchronize", begin + 150, begin + 990)
    facts = made.facts(tmp_path)
    assert facts.verdict.why == "unrecorded_wait"
    assert "of its critical path cudaStreamSynchronize waits for something that was not recorded" in (
        facts.verdict.sentence
    )
    said = judged("V26", facts)
    assert isinstance(said, Finding)
    assert "most in cudaStreamSynchronize" in said.formula


def test_a_selection_without_launches_is_no_unknown_runtime(tmp_path: Path) -> None:
    made = Made()
    for step in range(3):
        begin = 1000 * step
        made.step(step, begin, begin + 999)
        if step != 1:
            made.launch(SGEMM, (begin + 1, begin + 5), (begin + 10, begin + 100))
    facts = facts_of(made.trace(tmp_path), scope=Scope(steps=(1, 1)))
    assert facts.verdict.why == "selection"
    assert "no launch of GPU work is in what was selected" in facts.verdict.sentence


@pytest.mark.parametrize(("end", "why"), [(0.0002, "selection"), (1.0, "recording_cost")])
def test_a_marked_range_that_cuts_what_its_launches_wait_for_has_no_verdict(end: float, why: str) -> None:
    trace = opened(SAMPLES / "vim_tiny").main
    begin = int(trace.device["start"].min())  # type: ignore[arg-type]
    facts = facts_of(trace, scope=Scope(window=(begin, begin + round(end * 1e9))))
    assert facts.verdict.why == why
    assert " -" not in facts.verdict.sentence
