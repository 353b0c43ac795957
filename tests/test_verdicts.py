"""What a run waits for: reviewed by hand, tried on purpose, and why the host was late."""

from pathlib import Path

import numpy as np
import pytest
from made_run import HGEMM, Made
from sample_runs import SAMPLES, recorded, run_of

from tracetui.analysis.compare.diff import step_split
from tracetui.analysis.dependencies.graph import graph
from tracetui.analysis.dependencies.limit import limit
from tracetui.analysis.dependencies.model import model
from tracetui.analysis.dependencies.waits import WAIT
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import find
from tracetui.analysis.selection import in_steps, select
from tracetui.parsers import open_path

UNTOLD = "unknown"
REVIEWED: dict[str, tuple[str, str | None]] = {
    # small batches in eager mode, with stacks: the clean step of the sample's twin takes 20.9 ms, its GPU work 2.6
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz": ("host", "S13"),
    "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz": ("host", "S13"),
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz": ("host", "S2"),
    "nsys/vim_tiny_fp32_bs4.sqlite.gz": ("host", "S2"),
    "chrome/gpt_small_ctx256.trace.json.gz": ("host", "S2"),
    # GPU work of 21 ms, steps of 34 ms as recorded: without a clean step nobody can tell: what is about the GPU alone
    # is not doubted
    "nsys/gpt_small_ctx256.sqlite.gz": (UNTOLD, "F1"),
    # graphs that are launched in time, of kernels that are too small for the GPU
    "chrome/cudagraph_replay.trace.json.gz": ("gpu", "K4"),
    "nsys/graph_node.sqlite.gz": ("gpu", "K4"),
    "nsys/graph_whole.sqlite.gz": ("gpu", None),
    # rank 1 has 1.5 times the batch, and both hosts launch for longer than that takes
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz": ("host", "S2"),
    "chrome/ddp_vit_small_2ranks/rank1.pt.trace.json.gz": ("host", "S2"),
    # the same program without and with workers
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz": ("dataloader", "S5"),
    "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz": (UNTOLD, "F2"),
    "jax/h200.trace.json.gz": (UNTOLD, None),
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz": (UNTOLD, None),
    # four GPUs: rank 2 has more GPU work, rank 3 waits for it; as recorded both wait for rank 1's host, which one
    # rank's file can't tell from the program
    "ranks4/ddp_gpu/rich/rank2.pt.trace.json.gz": (UNTOLD, "S14"),
    "ranks4/ddp_gpu/rich/rank3.pt.trace.json.gz": (UNTOLD, "S14"),
    # four GPUs: rank 1 loads late, the others wait for it, part of it because of the recording
    "ranks4/ddp_host/rich/rank1.pt.trace.json.gz": ("host", "S2"),
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
    # clean 90.7, GPU work 91.7; F6's bound is nearly the same
    "gpt_train": ("gpu", "F7"),
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
    said = {found.id: found for found in find(Facts(run_of("nsys/system.sqlite.gz"))).standing}
    assert "Do not tune kernels (gemm" in said["K14"].advice
    assert said["K12"].advice.startswith("Leave it until the GPU is what the step waits for")
    gpu = {found.id: found for found in find(Facts(run_of("nsys/gpu_metrics.sqlite.gz"))).found}
    assert gpu["K12"].advice.startswith("Work on this kernel alone")
    assert gpu["K12"].severity == "info"


# recording, what it waits for, and the growth for 1 ms more of the host, of the GPU
TRIED = [
    ("limits/gpt_graphs", "gpu", 0.01, 0.99),
    ("limits/two_streams.pt.trace.json.gz", "gpu", 0.03, 1.01),
    ("limits/copy_pageable", "copies", 1.02, 1.30),  # the driver's thread makes the copy: either delay is in its way
]


@pytest.mark.parametrize(("name", "kind", "host", "gpu"), TRIED)
def test_the_limit_is_the_one_that_was_tried(name: str, kind: str, host: float, gpu: float) -> None:
    found = limit(select(run_of(name).main), "all steps", "a step")
    assert found.kind == kind
    assert found.unexplained == 0
    assert gpu > max(host, 0.9)
    taken = found.clean_ns or found.recorded_ns
    assert found.host_free_ns == pytest.approx(taken, rel=0.07)
    assert found.host_free_ns <= taken


def test_gaps_within_a_cuda_graph_add_up() -> None:
    """A median gap would miss a tenth of these steps: most nodes follow at once, some after microseconds."""
    light = run_of("limits/gpt_graphs").main.light()
    found = model(select(light))
    assert found.replayed_ns == pytest.approx(found.recorded_ns, rel=0.01)


def test_a_stream_is_held_up_by_work_from_before_the_steps() -> None:
    """The GPU is 43 ms behind when the first step begins: both streams start late, not only the first one."""
    found = graph(select(run_of("limits/two_streams.pt.trace.json.gz").main))
    firsts = [np.flatnonzero(found.work.stream == stream)[0] for stream in (0, 1)]
    for stream, first in enumerate(firsts):
        assert 0 <= found.work.start[first] - found.held[stream] < 100_000
        assert found.work.start[first] - found.calls.start[found.work.call[first]] > 40_000_000


def test_a_copy_of_pageable_memory_occupies_its_caller() -> None:
    """The call returns microseconds before the last piece arrives, and is no work of the host for all that."""
    light = run_of("limits/copy_pageable").main.light()
    found = graph(select(light))
    long = found.calls.end - found.calls.start > 10_000_000
    assert long.sum() == found.steps.height
    assert (found.calls.kind[long] == WAIT).all()
    assert max(model(select(light)).kernels_free_ns) < 0.2 * model(select(light)).recorded_ns


def test_the_driver_copies_pageable_memory_before_and_after_its_work() -> None:
    """Optimizer on the CPU: up to 2 ms go by before the first piece of a copy leaves, and after the last one came."""
    found = model(select(run_of("limits/offload_adam.pt.trace.json.gz").main))
    assert found.replayed_ns == pytest.approx(found.recorded_ns, rel=0.01)
    calls = found.graph.calls
    copying = calls.stretch[1:] - (calls.start[1:] - calls.end[:-1])
    assert (copying == 0).all()  # what is taken from a call is host time beside it, and no time is lost


LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def split(folder: Path, *calls: tuple[str, str, float, float, int]) -> dict[str, float]:
    """Two steps of 200 µs: GPU work until 100, then what the host does, and the next launch at 195; µs per step."""
    made = Made()
    for number in range(2):
        begin = 200.0 * number
        made.launch(HGEMM, (begin, begin + 5), (begin + 5, begin + 100))
        for kind, name, start, end, thread in calls:
            made.host(kind, name, begin + start, begin + end, thread)
        made.launch(HGEMM, (begin + 195, begin + 196), (begin + 197, begin + 200))
        made.step(number, begin, begin + 200)
    found = step_split(in_steps(made.facts(folder).sel))
    assert found is not None
    assert found["loader"] + found["synchronisation"] + found["launching"] == pytest.approx(found["host_wait"])
    return {part: ns / 1000 for part, ns in found.items()}


def test_what_the_host_waits_for_is_told_apart(tmp_path: Path) -> None:
    found = split(
        tmp_path,
        ("cuda_runtime", "cudaDeviceSynchronize", 80, 102, 1),  # 22, of which the GPU works for 20
        ("cpu_op", LOADER, 110, 150, 1),
    )
    assert found["loader"] == pytest.approx(40)
    assert found["synchronisation"] == pytest.approx(22)
    assert found["host_wait"] == pytest.approx(97 + 2.5, abs=3)  # the second step begins with the launch


def test_no_call_costs_more_than_the_gap_that_it_reaches_into(tmp_path: Path) -> None:
    found = split(tmp_path, ("cuda_runtime", "cudaStreamSynchronize", 10, 190, 1))
    assert found["launching"] == pytest.approx(2.5, abs=3)
    assert found["synchronisation"] == pytest.approx(97, abs=1)


def test_what_another_thread_waits_for_is_none_of_it(tmp_path: Path) -> None:
    found = split(
        tmp_path,
        ("cpu_op", LOADER, 100, 190, 2),  # fetches ahead
        ("cuda_runtime", "cudaDeviceSynchronize", 50, 190, 3),
    )
    assert (found["loader"], found["synchronisation"]) == (0, 0)


@pytest.mark.parametrize("name", ["chrome/hta_trace_diff/control.json.gz", "chrome/gpt_small_ctx256.trace.json.gz"])
def test_the_parts_of_a_recording_add_up(name: str) -> None:
    found = step_split(in_steps(select(run_of(name).main)))
    assert found is not None
    assert found["loader"] + found["synchronisation"] + found["launching"] == pytest.approx(found["host_wait"])
    assert min(found[part] for part in ("loader", "synchronisation", "launching")) >= 0
