"""One base for a number: a share of another step than the verdict's says which, in runs with several kinds of steps."""

import re
from pathlib import Path

import polars as pl
import pytest
from judged import find
from sample_runs import SAMPLES, SWEEP, recorded

from tracetui.analysis.base.number_format import format_ns
from tracetui.analysis.dependencies.model import UNEXPLAINED
from tracetui.analysis.findings.core.basis import shown
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.matching.light_times import light_selection
from tracetui.parsers import open_path

RUNS: dict[str, Path] = {
    **{name: SAMPLES / name for name in ("vim_tiny", "vim_tiny_fp16")},
    **{str(path.relative_to(SWEEP)): path for path in sorted(SWEEP.glob("batch=*/repeat-1"))},
    **{
        name: recorded(name)
        for name in (
            "limits/copy_pageable", "limits/gpt_graphs", "mlp_profiled", "two_passes", "gpt_clean", "gpt_train",
        )
    },
}  # fmt: skip
_SHARE = re.compile(r"([\d.,]+ (?:ns|µs|ms|s)) of ([\d.,]+ (?:ns|µs|ms|s))(?: as recorded)?(?: = |,)")
_SHORTER = re.compile(r"the (\w+ )?step would be ([\d.]+) % shorter")


def _all(facts: Facts) -> list[Finding]:
    said = find(facts)
    return [*said.found, *(one.finding for one in said.suppressed)]


@pytest.mark.parametrize("name", RUNS)
def test_a_share_of_another_step_says_so(name: str) -> None:
    facts = Facts(open_path(RUNS[name]))
    assert facts.model is not None
    verdicts = facts.model.step_ns
    called = {
        format_ns(facts.step_ns): "recorded",
        format_ns(verdicts): "the step",
    }
    kernels = format_ns(facts.kernel_ns)
    for found in _all(facts):
        for _, base in _SHARE.findall(found.formula):
            if base == kernels or found.id.startswith("V") or base not in called:
                continue
            assert called[base].removeprefix("the ") in found.title + found.formula, (found.id, found.formula)
        told = _SHORTER.search(found.title)
        if told is not None and not told[1]:
            assert found.impact_ns is not None
            assert 100 * found.impact_ns / verdicts == pytest.approx(float(told[2]), rel=0.01), found.title


def test_copies_have_the_share_that_the_overview_shows() -> None:
    facts = Facts(open_path(RUNS["limits/copy_pageable"]))
    found = next(one for one in _all(facts) if one.id == "S10")
    copies = facts.page_step.average.filter(pl.col("category") == "memcpy").row(0, named=True)
    assert (told := re.search(r"= ([\d.]+) %", found.formula)) is not None
    assert float(told[1]) == pytest.approx(copies["percent"], rel=UNEXPLAINED)
    (spent,) = [one.value for one in found.evidence if one.label == "copies to the GPU"]
    assert spent == pytest.approx(copies["ns"], rel=UNEXPLAINED)
    pageable = next(one for one in _all(facts) if one.id == "S8")
    (on_gpu,) = [one.value for one in pageable.evidence if one.label == "copies on the GPU"]
    assert on_gpu == pytest.approx(copies["ns"], rel=UNEXPLAINED)


@pytest.mark.parametrize("name", RUNS)
def test_what_the_figures_are_of(name: str) -> None:
    facts = Facts(open_path(RUNS[name]))
    base, light = shown(facts), light_selection(facts.sel)
    assert base.step_ns == facts.page_step.ns
    assert base.steps == facts.run_overview.steps
    assert base.sel is (facts.sel if light is None else light)
    assert base.span == "the step"


def test_host_findings_are_silent_where_the_light_steps_wait_for_the_gpu() -> None:
    """The rich recording slowed the host down until it was the limit; the verdict is of the light one."""
    facts = Facts(open_path(RUNS["two_passes"]))
    assert facts.verdict.kind == "gpu"
    assert facts.host_model is not None
    assert facts.host_model.waits_for != "gpu"
    assert not {"S2", "S13"} & {found.id for found in _all(facts)}


def test_copies_from_before_the_steps_are_no_step_s(tmp_path: Path) -> None:
    from made_run import SGEMM, Made, finding

    made = Made()
    kind = "gpu_memcpy"
    for number in range(50):
        at = 1000 * number
        made.launch("Memcpy HtoD (Pinned -> Device)", (at, at + 5), (at + 6, at + 900), kind=kind, bytes=1 << 20)
    for step in range(3):
        begin = 60_000 + 1000 * step
        made.step(step, begin, begin + 999)
        made.launch("Memcpy HtoD (Pinned -> Device)", (begin, begin + 5), (begin + 6, begin + 206), kind=kind, bytes=64)
        made.launch(SGEMM, (begin + 7, begin + 9), (begin + 210, begin + 900))
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 10, begin + 905)
    found = finding("S10", made.facts(tmp_path))
    assert "= 20.0 %" in found.formula
    assert {one.label: one.value for one in found.evidence}["bytes per step"] == 64
