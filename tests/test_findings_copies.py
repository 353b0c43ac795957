"""Copies between host and GPU: the verdict that they limit the run, what is said of it, and what overlap can gain."""

from dataclasses import replace
from pathlib import Path

import pytest
from judged import find, fires, judged, silent
from made_run import SGEMM, Made, finding
from sample_runs import run_of

from tracetui.analysis.findings.core import words
from tracetui.analysis.findings.core.facts import Facts

PREFETCHED = "limits/copies_prefetched.pt.trace.json.gz"
BOTH_WAYS = "limits/copies_both_ways.pt.trace.json.gz"
PAGEABLE = "limits/copy_pageable"
H2D, D2H = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"
D2D = "Memcpy DtoD (Device -> Device)"


@pytest.mark.parametrize("name", [PREFETCHED, BOTH_WAYS, PAGEABLE, "limits/offload_adam.pt.trace.json.gz"])
def test_where_copies_limit_the_run_a_finding_says_so_among_the_first(name: str) -> None:
    facts = Facts(run_of(name))
    assert facts.verdict.kind == "copies"
    assert ("S27", "critical") in [(one.id, one.severity) for one in find(facts).found[:2]]


def test_copies_at_the_peak_of_the_link() -> None:
    said = fires("S27", Facts(run_of(PREFETCHED)))
    # 192 MiB in 3.629 ms
    assert "192.0 MiB to the GPU at 55.5 GB/s (88.1 % of PCIe 5.0 x16) per step" in said.title
    told = {one.label: one.value for one in said.evidence}
    assert told["to the GPU, from or to pageable memory, of the bytes"] == 0
    assert told["step shorter with half the bytes, at most"] == pytest.approx(50, abs=1)
    # the products and the conversion are what would be left: 0.67 ms of 3.63 ms
    assert said.ceiling_percent == pytest.approx(80, abs=1)
    assert "no way to copy is faster" in said.advice
    assert "beside kernels" not in said.advice, "they run beside them already"
    assert "pin" not in said.advice.lower()


def test_both_directions_could_share_the_link() -> None:
    said = fires("S27", Facts(run_of(BOTH_WAYS)))
    assert "256.0 MiB to the GPU" in said.title
    assert "256.0 MiB to the host" in said.title
    assert "both directions beside each other" in said.advice


def test_pageable_copies_are_to_be_pinned_first() -> None:
    said = fires("S27", Facts(run_of(PAGEABLE)))
    assert said.advice.startswith("Pin the host's memory first")
    # pinned ones still take the link's time: 147 MiB at 63 GB/s
    slow = fires("S8", Facts(run_of(PAGEABLE)))
    assert "pinned copies still take 2.447 ms" in slow.formula
    assert slow.impact_ns == pytest.approx(18.001e6 - 2.447e6, abs=2e3)


def test_overlap_gains_no_more_than_the_shorter_of_copies_and_kernels() -> None:
    said = fires("S10", Facts(run_of(PAGEABLE)))
    told = {one.label: one.value for one in said.evidence}
    could = float(told["of it that could be, by the time of copies and kernels"])
    assert "the copies still take" in said.formula
    assert could <= (said.impact_ns or 0) < 1.1 * could  # the host works beside the copies too
    assert could < 0.1 * float(told["copies to the GPU"])
    assert silent("S10", Facts(run_of(PREFETCHED))), "all kernels run beside copies already"


def _copying(folder: Path, name: str, mib: float, count: int = 1) -> Facts:
    """Steps of one product and copies of so many MiB each, one after the other, 600 µs together."""
    made = Made()
    for step in range(5):
        at = 1000 * step
        made.step(step, at, at + 999)
        lasts = 600 / count
        for number in range(count):
            begin = at + 20 + number * lasts
            made.launch(
                name, (at + 1 + number, at + 1.5 + number), (begin, begin + lasts - 0.5), api="cudaMemcpyAsync",
                kind="gpu_memcpy", bytes=int(mib * (1 << 20)),
            )  # fmt: skip
        made.launch(SGEMM, (at + 15, at + 17), (at + 621, at + 940))
        made.host("cuda_runtime", "cudaDeviceSynchronize", at + 18, at + 942)
    return made.facts(folder)


def test_copies_within_the_gpu_are_the_gpu(tmp_path: Path) -> None:
    facts = _copying(tmp_path, D2D, 512)
    assert facts.verdict.kind == "gpu"
    assert judged("S27", facts) is None


def test_small_copies_are_to_be_put_together(tmp_path: Path) -> None:
    facts = _copying(tmp_path, H2D, 0.01, count=10)
    assert facts.verdict.kind == "copies"
    assert "pay for their start: put many into one" in fires("S27", facts).advice


def test_copies_to_the_host_that_no_kernel_runs_beside(tmp_path: Path) -> None:
    said = fires("S27", _copying(tmp_path, D2H, 8))
    assert "8.000 MiB to the host at 14.0 GB/s" in said.title
    assert "on a stream of their own" in said.advice


def test_gains_on_the_host_rest_on_the_verdicts_model_where_the_rich_recording_says_another_limit() -> None:
    """A rich recording of few steps, of other kinds than most, must not silence what the light one tells."""
    facts = Facts(run_of("mlp_profiled"))
    assert facts.verdict.kind == "host"
    named = facts.host_model
    assert named is not None
    usual = finding("S2", facts)
    other = Facts(facts.run)
    assert named.clean_ns is not None
    other.__dict__["host_model"] = replace(named, clean_ns=named.host_free_ns)
    assert other.host_model is not None
    assert other.host_model.waits_for == "gpu"
    # in the light recording the host's time lies before the first launch of each step, so it is S13 that tells
    said = finding("S13", other)
    assert other.model is not None
    assert f"of {words.ns(other.model.step_ns)}" in said.formula
    assert "the median of 9 steps" in said.formula
    assert said.ceiling_percent == pytest.approx(usual.ceiling_percent, abs=1)


def test_waits_stand_in_the_way_of_cuda_graphs() -> None:
    said = finding("S2", Facts(run_of("gpt_small_ctx256.trace.json.gz"))).advice
    assert said.startswith("First take out its 3 waits, most in cudaDeviceSynchronize in backward_pass: none can be ")
    assert finding("S2", Facts(run_of("mlp_profiled"))).advice.startswith("torch.compile")
