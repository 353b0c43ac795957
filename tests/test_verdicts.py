"""Headline and first advice of every recording, as reviewed by hand from clean steps and from how each was made."""

from __future__ import annotations

import pytest
from sample_runs import SAMPLES, recorded, run_of

from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import find
from tracetui.parsers import open_path

UNTOLD = "unknown"
REVIEWED: dict[str, tuple[str, str | None]] = {
    # small batches in eager mode, with stacks: the clean step of the sample's twin takes 20.9 ms, its GPU work 2.6
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz": ("host", "S2"),
    "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz": ("host", "S2"),
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz": ("host", "S2"),
    "nsys/vim_tiny_fp32_bs4.sqlite.gz": ("host", "S2"),
    "chrome/gpt_small_ctx256.trace.json.gz": ("host", "S2"),
    # GPU work of 21 ms, steps of 34 ms as recorded: without a clean step nobody can tell, but a fused attention gains
    # either way, less work and fewer launches
    "nsys/gpt_small_ctx256.sqlite.gz": (UNTOLD, "F6"),
    # graphs that are launched in time, of kernels that are too small for the GPU
    "chrome/cudagraph_replay.trace.json.gz": ("gpu", "K4"),
    "nsys/graph_node.sqlite.gz": ("gpu", "K4"),
    "nsys/graph_whole.sqlite.gz": ("gpu", None),
    # rank 1 has 1.5 times the batch, and both hosts launch for longer than that takes
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz": ("host", "S2"),
    "chrome/ddp_vit_small_2ranks/rank1.pt.trace.json.gz": ("host", "S2"),
    # the same program without and with workers
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz": ("dataloader", "S5"),
    "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz": (UNTOLD, "F7"),
    "jax/h200.trace.json.gz": (UNTOLD, None),
    # four GPUs: rank 2 has more GPU work, rank 3 waits for it; as recorded both wait for rank 1's host, which one
    # rank's file can't tell from the program
    "ranks4/ddp_gpu/rich/rank2.pt.trace.json.gz": (UNTOLD, "S14"),
    "ranks4/ddp_gpu/rich/rank3.pt.trace.json.gz": (UNTOLD, "F7"),
    # four GPUs: rank 1 loads late, the others wait for it, part of it because of the recording
    "ranks4/ddp_host/rich/rank1.pt.trace.json.gz": ("host", "S5"),
    "ranks4/ddp_host/rich/rank2.pt.trace.json.gz": (UNTOLD, "S14"),
    "ranks4/ddp_host/rich/rank3.pt.trace.json.gz": (UNTOLD, "S14"),
    # convolutions in fp32 without tensor cores, at two batch sizes
    "public/luatil_05.json.gz": ("gpu", "F1"),
    "public/luatil_06.json.gz": ("gpu", "F1"),
    # 463 of its 474 ms are work that was launched before the recording
    "public/tl_sglang_decode.json.gz": (UNTOLD, None),
    "public/tl_vllm_piecewise.json.gz": ("gpu", "K12"),
}
WITH_CLEAN_STEPS: dict[str, tuple[str, str | None]] = {
    # clean 25.4 ms, GPU work 24.2
    "gpt_clean": ("gpu", "T1"),
    # clean 90.7, GPU work 91.7; F7's bound is nearly the same
    "gpt_train": ("gpu", "F6"),
}
SAMPLE_RUNS: dict[str, tuple[str, str | None]] = {
    # clean 20.9 and 19.1 ms, GPU work 3
    "vim_tiny": ("host", "S2"),
    "vim_tiny_fp16": ("host", "S2"),
    # clean 3.34, 3.21, 6.15, 6.11, 6.96, 17.4 ms; GPU work 1.9, 3.2, 2.9, 6.1, 7.0, 17.4
    "topk_deit_sweep/batch=1,keep=0.1/repeat-1": ("host", "S2"),
    "topk_deit_sweep/batch=1,keep=1.0/repeat-1": ("gpu", "F1"),
    "topk_deit_sweep/batch=4,keep=0.1/repeat-1": ("host", "S2"),
    "topk_deit_sweep/batch=4,keep=1.0/repeat-1": ("gpu", "F1"),
    "topk_deit_sweep/batch=16,keep=0.1/repeat-1": ("gpu", "F1"),
    "topk_deit_sweep/batch=16,keep=1.0/repeat-1": ("gpu", "F1"),
}


def _said(facts: Facts) -> tuple[str, str | None]:
    """The headline, and the first finding that is not about the measurement."""
    first = next((found.id for found in find(facts).found if not found.id.startswith("V")), None)
    return facts.overview.verdict.kind, first


@pytest.mark.parametrize("name", REVIEWED)
def test_a_recording_alone(name: str) -> None:
    assert _said(Facts(run_of(name))) == REVIEWED[name]


@pytest.mark.parametrize("name", WITH_CLEAN_STEPS)
def test_a_run_with_clean_steps(name: str) -> None:
    assert _said(Facts(open_path(recorded(name)))) == WITH_CLEAN_STEPS[name]


@pytest.mark.parametrize("name", SAMPLE_RUNS)
def test_a_bundled_run(name: str) -> None:
    facts = Facts(open_path(SAMPLES / name))
    assert _said(facts) == SAMPLE_RUNS[name]
    assert facts.model is not None
    assert facts.model.clean_ns is not None
    if facts.model.waits_for == "gpu":
        assert facts.model.host_free_ns <= 1.07 * facts.model.clean_ns


def test_steps_without_gpu_work_have_no_length() -> None:
    """One of the two steps launched nothing: the verdict's step is the other one, not the mean of both."""
    verdict = Facts(run_of("chrome/forms/amd_mi250_rocm.json.gz")).overview.verdict
    assert verdict.sentence.endswith("(steps 1-2, 1 of 2 with GPU work).")
    whole = Facts(run_of("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz")).overview.verdict
    assert whole.sentence.endswith("(steps 1-3).")


def test_no_advice_on_a_kernel_while_the_host_is_the_limit() -> None:
    said = {found.id: found for found in find(Facts(run_of("nsys/system.sqlite.gz"))).found}
    assert "Do not tune kernels (gemm" in said["K14"].advice
    assert said["K12"].advice.startswith("Leave it until the GPU is what the step waits for")
    gpu = {found.id: found for found in find(Facts(run_of("nsys/gpu_metrics.sqlite.gz"))).found}
    assert gpu["K12"].advice.startswith("Work on this kernel alone")
    assert gpu["K12"].severity == "warning"
