"""Rules on counters of Nsight Compute: bank conflicts, spills, stalls, divergence, the tensor pipe, precisions."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from judged import abstains, fires, manifest, silent
from made_run import ADD, HGEMM
from ncu_file import long_table, wide_table
from reported import opened
from sample_runs import recorded

from tracetui.analysis.counters.metrics import stopped_at
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.findings.engine import findings_of
from tracetui.analysis.findings.gpu.measured_kernels import _IN_WORDS, PER_ISSUE, REASONS, _reason
from tracetui.analysis.roofline.counters import matrix_time
from tracetui.app.reports.content.counters import stopped_text
from tracetui.parsers import open_path
from tracetui.parsers.names.kernel_types import operand_type

RAW, DETAILS = "ncu/vim_full_raw.csv.gz", "ncu/vim_full_details.csv.gz"
OPS = "ops/ops.ncu.csv.gz"
TIME = {"gpu__time_duration.sum": "ns"}
SOL = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "%",
}
DIVERGED = "smsp__thread_inst_executed_per_inst_executed.ratio"


def facts(name: str) -> Facts:
    return Facts(opened(recorded(name)))


def made(folder: Path, metrics: dict[str, str], *kernels: tuple[str, list[str]]) -> Facts:
    path = folder / "made.csv"
    path.write_text(wide_table({**TIME, **metrics}, list(kernels)))
    return Facts(open_path(path, cache=False))


def found(id: str, name: str) -> dict[str, Finding]:
    """What a rule finds in a recording, by the first word of the kernel in the title."""
    return {one.title: one for one in findings_of(facts(name)).found if one.id == id}


def evidence(one: Finding) -> dict[str, object]:
    return {item.label: item.value for item in one.evidence}


# --- K8: bank conflicts


@pytest.mark.parametrize("page", [RAW, DETAILS])
def test_k8_reads_the_same_from_both_pages(page: str) -> None:
    said = found("K8", page)
    conv = next(one for title, one in said.items() if "fprop" in title)
    # ncu: 2041536 excessive wavefronts (54% of the total 3789936 wavefronts)
    assert conv.title.startswith("53.9 % of the shared-memory accesses")
    assert "1 - 1,748,400 / 3,789,936" in conv.formula
    assert "no gain is claimed" in conv.formula  # it waits for latency
    assert "library" in conv.advice
    assert len(said) == 3


def test_k8_takes_conflicts_where_nobody_counted_what_would_do(tmp_path: Path) -> None:
    metrics = {
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "",
        **SOL,
    }
    one = fires("K8", made(tmp_path, metrics, (ADD, ["800", "1000", "400", "10", "90"])))
    assert one.title.startswith("40.0 %")
    assert "800" not in one.formula.partition(";")[0]
    assert "no gain is claimed" not in one.formula  # memory is its bottleneck
    assert silent("K8", made(tmp_path, metrics, (ADD, ["800", "1000", "100", "10", "90"])))


# --- K9: spills


def test_k9_finds_spills_and_says_when_they_may_be_arrays(tmp_path: Path) -> None:
    spills = {"derived__local_spilling_requests": "", "derived__local_spilling_requests_pct": "%"}
    one = fires("K9", made(tmp_path, spills, (ADD, ["800", "4000", "12.5"])))
    assert "spills registers to local memory: 4,000 requests" in one.title
    assert evidence(one)["of its requests"] == 12.5
    assert one.impact_ns is None
    local = {f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum": "" for op in ("ld", "st")}
    one = fires("K9", made(tmp_path, local, (ADD, ["800", "30", "10"])))
    assert "keeps values to local memory: 40 requests" in one.title
    assert "indexed by computed numbers" in one.advice
    assert silent("K9", made(tmp_path, spills, (ADD, ["800", "0", "0"])))
    assert silent("K9", facts(DETAILS))
    assert "MemoryWorkloadAnalysis" in abstains("K9", facts(OPS))


# --- K11: stalls


def test_k11_names_what_the_scan_waits_for() -> None:
    raw, details = (next(iter(found("K11", page).values())) for page in (RAW, DETAILS))
    for one in (raw, details):
        assert "selective_scan_fwd_kernel" in one.title
        assert "data from global or local memory" in one.title
    # the details page has the words of ncu's rule on one launch, the raw page the counters of all three
    assert evidence(raw)["of a warp's cycles between two instructions"] == pytest.approx(36.54, abs=0.01)
    assert "2.60 of 7.00 cycles per instruction = 37.3 %" in details.formula
    assert evidence(raw)["cycles in which instructions are issued"] == pytest.approx(40.87, abs=0.01)
    assert "only a time line tells" in raw.formula


def test_k11_leaves_kernels_at_the_peak_of_arithmetic_alone(tmp_path: Path) -> None:
    metrics = {
        PER_ISSUE.format("long_scoreboard"): "inst",
        "smsp__average_warp_latency_per_inst_issued.ratio": "cycle",
        **SOL,
    }
    assert fires("K11", made(tmp_path, metrics, (ADD, ["80000", "6", "10", "10", "20"])))
    assert silent("K11", made(tmp_path, metrics, (ADD, ["80000", "6", "10", "90", "20"])))
    assert silent("K11", made(tmp_path, metrics, (ADD, ["80000", "2", "10", "10", "20"])))
    assert "WarpStateStats" in abstains("K11", facts(OPS))


def test_every_stall_that_ncu_counts_or_describes_is_known() -> None:
    metrics = opened(recorded(RAW)).main.counters["metric"].unique().to_list()
    counted = {
        match[1] for name in metrics if (match := re.fullmatch(PER_ISSUE.format(r"(\w+)"), str(name))) is not None
    }
    assert counted - {"selected", "not_selected"} <= REASONS.keys()
    assert {reason for _, reason in _IN_WORDS} <= REASONS.keys()
    assert _reason("waiting for a scoreboard dependency on a MIO operation (not to L1TEX)") == "short_scoreboard"
    assert _reason("waiting for a scoreboard dependency on a L1TEX operation") == "long_scoreboard"


# --- K15: divergence


def test_k15_counts_threads_that_work(tmp_path: Path) -> None:
    metrics = {DIVERGED: "", **SOL}
    one = fires("K15", made(tmp_path, metrics, (ADD, ["800", "8", "90", "20"])))
    assert one.title.endswith("works for 8.00 of the 32 threads of a warp")
    assert "(1 - 0.25)" in one.formula
    assert "no gain" in fires("K15", made(tmp_path, metrics, (ADD, ["800", "8", "20", "90"]))).formula
    assert silent("K15", made(tmp_path, metrics, (ADD, ["800", "31", "90", "20"])))
    # the details page calls it otherwise; the split-K kernel that diverges takes too little time
    assert silent("K15", facts(DETAILS))
    page = tmp_path / "details.csv"
    page.write_text(
        long_table([
            (0, ADD, "GPU Speed Of Light Throughput", "Duration", "ns", "800"),
            (0, ADD, "Warp State Statistics", "Avg. Active Threads Per Warp", "", "8"),
        ])
    )  # fmt: skip
    assert fires("K15", Facts(open_path(page, cache=False)))


# --- K19, K16, V27: precisions


def test_k19_finds_idle_and_unused_tensor_cores(tmp_path: Path) -> None:
    idle = found("K19", "ncu/mlp/mlp_bs64_bf16.csv.gz")
    assert list(idle) == [
        "nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT keeps the tensor pipe 3.61 % busy",
        "nvjet_sm90_tst_8x64_64x16_2x1_v_bz_bias_TNN keeps the tensor pipe 3.51 % busy",
    ]
    unused = made(tmp_path, {"sm__inst_executed_pipe_tensor.sum": "inst"}, (HGEMM, ["800", "0"]))
    assert "without tensor cores" in fires("K19", unused).title
    assert silent("K19", facts("ncu/mlp/mlp_bs64_fp32.csv.gz"))  # K10's


def test_k16_and_v27_on_the_operations() -> None:
    time = matrix_time(opened(recorded(OPS)).main)
    assert set(time) == {"fp64", "fp32", "tf32", "fp16", "bf16", None}
    mixed = fires("V27", facts(OPS))
    assert mixed.title.startswith("The capture mixes precisions: fp32 44.7 %, fp64 38.4 %")
    assert fires("K16", facts(OPS)).title == "Compute in fp32: double precision takes 37.7 % of kernel time"
    for name in (RAW, DETAILS, "ncu/mlp/mlp_bs64_bf16.csv.gz"):
        assert silent("V27", facts(name))
        assert silent("K16", facts(name))


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16", "fp16"])
def test_counters_and_names_tell_the_same_precision(dtype: str) -> None:
    trace = opened(recorded(f"ncu/mlp/mlp_bs64_{dtype}.csv.gz")).main
    assert list(matrix_time(trace)) == [dtype]
    names = {str(name) for name in trace.device["name"] if "gemm" in str(name) or "nvjet" in str(name)}
    assert {operand_type(name) for name in names} == {dtype}


# --- V28: a capture that its limit of launches ended


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ("--launch-count 15", 15),
        ("-c 7", 7),
        ("--launch-count=15", 15),
        ("--launch-count 16", None),
        ("--launch-count 15 --kernel-name regex:gemm", None),
        ("--set full", None),
    ],
)
def test_v28_knows_a_capture_that_was_cut_off(options: str, limit: int | None) -> None:
    run = opened(recorded("ncu/mlp/mlp_bs64_fp32.csv.gz"))
    said = manifest(measurement={"commands": [["ncu", *options.split(), "python", "train.py"]]})
    assert stopped_at(run.main, said) == limit
    of_run = Facts(replace(run, manifest=said))
    assert silent("V28", of_run) if limit is None else f"after {limit} launches" in fires("V28", of_run).title


def test_v28_needs_the_command() -> None:
    assert stopped_at(opened(recorded(RAW)).main, None) is None
    assert "run.json" in abstains("V28", facts(RAW))
    assert stopped_text({"A": 200, "B": 200}).startswith("ncu stopped after 200 launches, as it was told (A; B)")
    assert stopped_text({}) == ""


# --- K7: what ncu itself calls excessive, and stores


def test_k7_takes_excessive_sectors_and_stores(tmp_path: Path) -> None:
    ways = {
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum": ""
        for op in ("ld", "st")
        for what in ("sectors", "requests")
    }
    surplus = {"derived__memory_l2_theoretical_sectors_global_excessive": "sector"}
    one = fires("K7", made(tmp_path, {**ways, **surplus}, (ADD, ["800", "3000", "100", "1000", "100", "3000"])))
    assert "moves 4.00 times the sectors" in one.title
    assert evidence(one)["sectors per store of a warp"] == 10
    # loads are fine, stores go to 32 sectors each
    one = fires("K7", made(tmp_path, ways, (ADD, ["800", "400", "100", "3200", "100"])))
    assert "at least 2.00 times" in one.title
    assert silent("K7", made(tmp_path, ways, (ADD, ["800", "400", "100", "400", "100"])))
