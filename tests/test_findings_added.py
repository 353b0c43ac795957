"""Exposed communication, batch norms to fold, fp32 and accesses under Nsight Compute, threads, and a diff's causes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from judged import abstains, find, fires, manifest
from made_run import ADD, HGEMM, SGEMM, Made, facts_of, finding, look, silent
from ncu_file import wide_table
from sample_runs import recorded

from tracetui.analysis.compare.diff import diff
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.findings.gpu.measured_kernels import accesses
from tracetui.analysis.findings.host.system import crowded_ns
from tracetui.analysis.findings.jobs import talks
from tracetui.analysis.findings.pairs.comparison import causes
from tracetui.parsers import Trace, open_path

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MULTIMEM = "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)"
CONV = "sm80_xmma_fprop_implicit_gemm_indexed_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize64x64x64_cudnn"
BN = (
    "void at::native::batch_norm_transform_input_kernel<float, float, float, false, int>(at::GenericPackedTensor"
    "Accessor<float const, 3ul, at::RestrictPtrTraits, int>)"
)
BN_STATISTICS = "void at::native::batch_norm_collect_statistics_kernel<at::native::Var, float, float, float, int>(int)"
BN_BACK = "void at::native::batch_norm_backward_kernel<float, float, float, int>(int)"


# --- S14: exposed communication


def _ranks(
    collective: tuple[float, float], computes: list[tuple[float, float]], gpu: int = 0, name: str = NCCL
) -> Made:
    """A step of 1000 µs: one collective, and kernels on another stream of a GPU."""
    made = Made()
    made.step(0, 0, 1000)
    made.host("cuda_runtime", "cudaDeviceSynchronize", 20, 1000)
    made.launch(name, (0, 1), collective, stream=20)
    for place, span in enumerate(computes):
        made.launch(HGEMM, (2 + place, 3 + place), span, device=gpu)
    return made


@pytest.mark.parametrize(
    "kernels", [[(10, 100), (100, 200), (200, 300), (600, 800), (800, 1000)], [(10, 300), (600, 1000)]]
)
def test_s14_is_what_no_kernel_of_the_same_gpu_hides(tmp_path: Path, kernels: list[tuple[float, float]]) -> None:
    # kernels follow each other without a pause, except where the collective keeps them waiting; that is no gap of
    # their stream, even where the stream has no other
    facts = _ranks((200, 600), kernels).facts(tmp_path)
    (talk,) = talks(facts)
    assert (talk.gpu, talk.ns, talk.exposed_ns) == (0, 400_000, 300_000)
    found = finding("S14", facts)
    assert found.title.startswith("Hide communication: 30.0 % of the step")
    assert found.impact_ns == pytest.approx(300_000, abs=1_000)
    assert found.severity == "warning"
    assert found.ceiling_percent == pytest.approx(100 * found.impact_ns / facts.page_step.ns)  # type: ignore[operator]
    assert (found.least_ns, found.sure_percent) == (0, 0)  # it may be waiting for a rank that comes later
    assert "no_sync" in found.advice


def test_s14_takes_no_other_gpus_work_for_cover(tmp_path: Path) -> None:
    beside = _ranks((200, 600), [(10, 1000)], gpu=1).facts(tmp_path)
    assert [(talk.gpu, talk.exposed_ns) for talk in talks(beside)] == [(0, 400_000)]
    assert not silent("S14", beside)  # set aside: the other GPU's work ends no earlier without it


def test_s14_is_silent_where_computation_covers_it_or_nobody_talks(tmp_path: Path) -> None:
    assert silent("S14", _ranks((200, 600), [(10, 1000)]).facts(tmp_path))
    assert silent("S14", _ranks((200, 600), [(10, 1000)], name=ADD).facts(tmp_path))
    assert finding("S14", _ranks((200, 600), [(700, 1000)], name=MULTIMEM).facts(tmp_path))


def test_s14_on_two_ranks(recording: Callable[[str], Trace]) -> None:
    facts = facts_of(recording("chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz"))
    found = finding("S14", facts)
    assert "45.1 %" in found.title
    assert "all ranks" in found.advice


# --- F20: batch norms


def _inference(*kernels: tuple[str, float]) -> Made:
    made, at = Made(), 0.0
    made.host("cuda_runtime", "cudaDeviceSynchronize", len(kernels), sum(lasts for _, lasts in kernels))
    for place, (name, lasts) in enumerate(kernels):
        made.launch(name, (place, place + 1), (at, at + lasts))
        at += lasts
    made.step(0, 0, at)
    return made


def test_f20_folds_batch_norms_after_convolutions(tmp_path: Path) -> None:
    found = finding(
        "F20", _inference((CONV, 300), (BN, 100), (CONV, 300), (ADD, 20), (BN, 100), (ADD, 180)).facts(tmp_path)
    )
    assert found.title.startswith("2 batch norms per step could be folded")
    assert found.impact_ns == 200_000
    assert "fuse_conv_bn_eval" in found.advice


@pytest.mark.parametrize("other", [BN_BACK, BN_STATISTICS, "void cudnn::cnn::dgrad2d_alg1_1<float, 0, 6>(int)"])
def test_f20_is_silent_about_training(tmp_path: Path, other: str) -> None:
    assert silent("F20", _inference((CONV, 300), (BN, 300), (other, 300)).facts(tmp_path))


def test_f20_is_silent_without_a_convolution_before(tmp_path: Path) -> None:
    assert silent("F20", _inference((HGEMM, 300), (BN, 300)).facts(tmp_path))
    assert silent("F20", _inference((CONV, 300), (HGEMM, 300), (BN, 300)).facts(tmp_path))


def test_f20_is_silent_about_a_training_of_resnet(recording: Callable[[str], Trace]) -> None:
    assert silent("F20", facts_of(recording("public/tl_mi210_gpuonly.json.gz")))


# --- K10: fp32 under Nsight Compute alone


def _profiled(folder: Path, kernels: list[tuple[str, list[str]]], metrics: dict[str, str]) -> Facts:
    path = folder / "a.csv"
    path.write_text(wide_table({"gpu__time_duration.sum": "ns", **metrics}, kernels))
    return facts_of(open_path(path, cache=False).main)


def test_k10_finds_fp32_products_without_a_time_line(tmp_path: Path) -> None:
    found = fires("K10", _profiled(tmp_path, [(SGEMM, ["800"]), (HGEMM, ["200"])], {}))
    assert found.title.startswith("80.0 % of the profiled kernel time is fp32 matrix work")
    assert found.impact_ns is None
    assert found.ceiling_percent is None


def test_k10_leaves_products_on_tensor_cores_alone(tmp_path: Path) -> None:
    assert silent("K10", _profiled(tmp_path, [(HGEMM, ["800"]), (ADD, ["200"])], {}))


def test_k10_leaves_recordings_with_a_time_line_to_f1(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    said = look("K10", _inference((SGEMM, 300)).facts(tmp_path / "b"))
    assert not said.found


@pytest.mark.parametrize(("name", "share"), [("ncu/vim_full_raw.csv.gz", "51.2 %"), ("ops/ops.ncu.csv.gz", "41.7 %")])
def test_k10_on_recordings(recording: Callable[[str], Trace], name: str, share: str) -> None:
    assert share in fires("K10", facts_of(recording(name))).title


# --- K7: uncoalesced accesses

SECTORS = {
    "memory_l2_theoretical_sectors_global": "sector",
    "memory_l2_theoretical_sectors_global_ideal": "sector",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "%",
}
LOADS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "sector",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "",
}


def test_k7_compares_sectors_with_those_that_would_do(tmp_path: Path) -> None:
    found = fires("K7", _profiled(tmp_path, [(ADD, ["800", "4000", "1000", "10", "90"])], SECTORS))
    assert "moves 4.00 times the sectors" in found.title
    assert "25.0 %" in found.formula
    assert silent("K7", _profiled(tmp_path, [(ADD, ["800", "1500", "1000", "10", "90"])], SECTORS))


def test_k7_claims_a_gain_only_where_memory_is_the_bottleneck(tmp_path: Path) -> None:
    memory = fires("K7", _profiled(tmp_path, [(ADD, ["800", "4000", "1000", "10", "90"])], SECTORS))
    assert "no gain is claimed" not in memory.formula
    compute = fires("K7", _profiled(tmp_path, [(ADD, ["800", "4000", "1000", "90", "10"])], SECTORS))
    assert "no gain is claimed" in compute.formula
    assert compute.severity == "info"


@pytest.mark.parametrize(("sectors", "judged"), [("3200", True), ("1600", False), ("400", False)])
def test_k7_knows_what_no_load_needs(tmp_path: Path, sectors: str, judged: bool) -> None:
    """100 loads of warps: 4 sectors each for 4 bytes a thread, 16 for 16 bytes, 32 for addresses far apart."""
    facts = _profiled(tmp_path, [(ADD, ["800", sectors, "100"])], LOADS)
    assert bool(look("K7", facts).found) is judged
    assert not judged or "at least 2.00 times" in fires("K7", facts).title
    assert accesses(facts)[0].per_request == int(sectors) / 100


def test_k7_abstains_without_counts(tmp_path: Path) -> None:
    assert "SourceCounters" in abstains("K7", _profiled(tmp_path, [(ADD, ["800"])], {}))


@pytest.mark.parametrize("name", ["ncu/vim_full_raw.csv.gz", "ncu/vim_full_details.csv.gz"])
def test_k7_reads_the_same_from_both_pages(recording: Callable[[str], Trace], name: str) -> None:
    facts = facts_of(recording(name))
    found = {one.title: one for one in look("K7", facts).found}
    conv = next(one for title, one in found.items() if "fprop" in title)
    assert "moves 4.40 times" in conv.title
    assert "931,200 / 4,094,976" in conv.formula
    assert "library" in conv.advice


# --- S18: threads


def _threads(count: int, cores: int | None, load: float | None = None) -> tuple[Made, Any]:
    made = Made()
    made.step(0, 0, 1000)
    made.launch(HGEMM, (0, 1), (1, 1000))
    for thread in range(count):
        made.host("cpu_op", "aten::mul", 100, 900, thread=10 + thread)
    states = [{"cpu": {"online": cores, "load_1m": load}}] * 3
    return made, manifest(power={"before": states[0], "during": states}) if cores else None


def test_s18_counts_threads_that_run_at_a_time(tmp_path: Path) -> None:
    made, said = _threads(6, 4)
    facts = made.facts(tmp_path, said)
    assert crowded_ns(facts, 4) == (800_000, 6)
    found = fires("S18", facts)
    assert found.title.startswith("Up to 6 threads run at a time on 4 cores")
    assert found.impact_ns is None


def test_s18_believes_the_load_of_the_machine(tmp_path: Path) -> None:
    made, said = _threads(1, 4, 9.5)
    assert fires("S18", made.facts(tmp_path, said)).title.startswith("9.50 threads want to run on 4 cores")


@pytest.mark.parametrize(("count", "load"), [(4, None), (2, 3.9)])
def test_s18_is_silent_where_every_thread_has_a_core(tmp_path: Path, count: int, load: float | None) -> None:
    made, said = _threads(count, 4, load)
    assert silent("S18", made.facts(tmp_path, said))


def test_s18_does_not_count_threads_that_wait(tmp_path: Path) -> None:
    made, said = _threads(2, 4)
    for thread in range(6):
        made.host("cuda_runtime", "cudaStreamSynchronize", 100, 900, thread=50 + thread)
    assert silent("S18", made.facts(tmp_path, said))


def test_s18_abstains_where_nobody_knows_the_cores(tmp_path: Path) -> None:
    made, _ = _threads(6, None)
    assert "cores" in abstains("S18", made.facts(tmp_path))


# --- D12: what the difference is made of


def _run(folder: Path, *, loader: float = 0.0, wait: float = 0.0, python: float = 0.0, gpu: float = 100.0) -> Facts:
    """Three steps: wait for data, launch after some Python, GPU work, and a wait that reaches into idle time."""
    made, at = Made(), 0.0
    for number in range(3):
        begin = at
        if loader:
            made.host("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, at + loader)
        at += loader + python
        made.launch(HGEMM, (at, at + 5), (at + 5, at + 5 + gpu))
        if wait:
            made.host("cuda_runtime", "cudaDeviceSynchronize", at + 6, at + 5 + gpu + wait / 2)
        at += 5 + gpu + wait
        if wait:
            made.launch(ADD, (at - 1, at), (at, at + 1))
            at += 1
        made.step(number, begin, at)
    folder.mkdir(exist_ok=True)
    return made.facts(folder)


def _cause(a: Facts, b: Facts) -> str:
    (found,) = find(Pair(a, b), rules={"D12": all_rules()["D12"]}).found
    return found.title.partition("most by ")[2].partition(" (")[0]


@pytest.mark.parametrize(
    ("slower", "cause"),
    [
        ({"loader": 60.0}, "the data loader"),
        ({"wait": 60.0}, "synchronisation"),
        ({"python": 60.0}, "launching and other work of the host"),
        ({"gpu": 160.0}, "GPU work"),
    ],
)
def test_d12_names_the_cause_both_ways(tmp_path: Path, slower: dict[str, float], cause: str) -> None:
    a, b = _run(tmp_path / "a"), _run(tmp_path / "b", **slower)
    assert _cause(a, b) == cause
    assert _cause(b, a) == cause


def test_d12_parts_add_up_and_small_differences_are_not_divided(tmp_path: Path) -> None:
    run = _run(tmp_path / "a", loader=30, wait=20, python=10)
    same = diff(run.sel, run.sel)
    found = causes(pl.concat([same.split, same.waiting]), "a")
    assert sum(found.values()) == pytest.approx(run.step_ns)
    other = _run(tmp_path / "b", loader=31, wait=20, python=10)
    assert not find(Pair(run, other), rules={"D12": all_rules()["D12"]}).found


def test_d12_names_the_loader_of_a_run_without_workers() -> None:
    runs = [recorded(f"chrome/kineto_samples/resnet50_num_workers_{n}.pt.trace.json.gz") for n in (0, 4)]
    a, b = (Facts(open_path(path, cache=False)) for path in runs)
    assert _cause(a, b) == "the data loader"
