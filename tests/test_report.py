"""The JSON contract: every key on real recordings, and the same numbers as the analysis functions."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import reported
from as_json import as_structs, report
from by_schema import wrong
from contract import LISTS, OF_RUN, may_be_null, nulls, rows_at
from msgspec import to_builtins
from reported import CHROME, MADE, NO_DURATIONS, NO_MEMORY, PAIRS, RECORDINGS, TWO_RANKS, VIM, VIM_FP16
from sample_runs import recorded, report_of, run_of

from tracetui.analysis.base.json_values import us
from tracetui.analysis.compare.compared_passes import OF_GPU, OF_NAMES
from tracetui.analysis.kernels import kernels
from tracetui.analysis.modules import modules
from tracetui.analysis.operators import operators
from tracetui.analysis.overview import overview
from tracetui.analysis.report.report import SECTIONS
from tracetui.analysis.report.rows import rows
from tracetui.analysis.report.sections import ON_REQUEST
from tracetui.analysis.selection import Scope, select
from tracetui.analysis.tables.registry import COMPARED
from tracetui.app.reports.json_report import to_json
from tracetui.parsers import Run, Trace, open_path


@pytest.fixture(scope="session")
def opened() -> Callable[[str], Run]:
    return lambda name: reported.opened(recorded(name))


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The whole report of a recording; made once, not to be changed."""
    made = {name: reported.make(name, tmp_path_factory.mktemp("made")) for name in MADE}
    return lambda name: reported.reported(made[name] if name in made else recorded(name))


UNASKED = {*ON_REQUEST, "source_lines", "host_lines", "host_stacks", "tried"}
"""Sections that a report has only where they are asked for."""
ALWAYS = {"source", "device", "base", "totals_base", "light", "rests_on", "counts"}
BESIDE = {
    *ALWAYS, "tensor_cores", "counters_by_kernel", "counters_missing", "roofline_peaks", "collective_pairs",
    "collectives_link", "findings_suppressed", "findings_silenced", "findings_abstained", "findings_checked",
}  # fmt: skip
"""Keys of a trace that are no sections."""
OF_TRACE = set(SECTIONS) - UNASKED - {"captures", *OF_RUN} | BESIDE
OF_TIMELINE = ("overview", "critical_path", "launches", "communication")
"""Sections that are null for a recording without a time line."""

OF_NCU = (
    "duration_us sm_percent memory_percent dram_percent theoretical_occupancy_percent occupancy_limiter l1_hit_percent "
    "l2_hit_percent l1_percent l2_percent registers shared_memory waves tensor_percent tensor_cores dram_bytes bound"
)
OF_KERNELS = (
    "total_us in_steps_us percent mean_us median_us min_us max_us std_us occupancy_percent blocks_per_sm registers "
    "shared_memory"
)
NULL_IN: dict[str, dict[str, str]] = {
    NO_DURATIONS: {
        "kernels": f"{OF_KERNELS} module operator range line p95_us distribution kernel_file source_nodes",
        "kernel_groups": OF_KERNELS,
        "configurations": (
            f"{OF_NCU.replace('occupancy_limiter ', '').replace('tensor_cores ', '')} total_us time_percent "
            "tensor_cores_percent dram_rate flops flop_rate intensity sectors_per_load sectors_per_store"
        ),
        "counters": f"{OF_NCU} range",
        "counters_by_kernel": f"{OF_NCU} total_us duration_min_us duration_max_us grid block",
        "roofline": (
            "letter total_us precision achieved_flops achieved_bytes intensity peak_flops attained_percent "
            "memory_roof_percent compute_roof_percent roof bound gap_us"
        ),
    },
    "chrome/gpt_small_ctx256.trace.json.gz": {
        "operators": "tensor_core_percent",
        "ranges": "style gpu_projected_us device_meanwhile_us",
        "range_tree": "host_self_us host_total_us gpu_projected_us device_meanwhile_us",
        "memory.holders": "allocations largest_bytes own library stack",
        "findings": "impact_us impact_least_us impact_after_us ceiling_percent",
    },
    "jax/h200.trace.json.gz": {
        "modules": "class_name host_self_us host_total_us operators occupancy_percent tensor_core_percent",
        "operators": "memory_self_bytes memory_total_bytes allocated_self_bytes allocated_total_bytes",
        "overview.gpu": "name sm_efficiency_percent",
    },
    "chrome/cudagraph_replay.trace.json.gz": {
        "overview.served": "batch tokens context tokens_per_s",
        "overview.served_work": "attention_percent gemm_percent cache_bytes cache_percent",
    },
    NO_MEMORY: {"memory.long_lived": "steps"},
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz": {"memory.long_lived": "own library stack"},
    "chrome/forms/amd_mi250_rocm.json.gz": {
        "memops": "bytes throughput_gbps line",
        "overview.gpu": "occupancy_percent",
    },
    "chrome/forms/cpu_only_rank34.json.gz": {
        "operators": "percent",
        "collectives": (
            "group group_description group_ranks waiting_us transfer_us exposed_us exposed_percent link_percent"
        ),
    },
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz": {"overview.kinds": "particular"},
    "chrome/hta_trace_diff/control.json.gz": {"collectives": "group_size"},
    TWO_RANKS: {
        "collectives": "bytes element_type algbw_gbps busbw_gbps rests_on",
        "ranks": "loader_us clean_step_us",
        "stragglers": "recorded_pass name factor step",
    },
    "nsys/graph_whole.sqlite.gz": {"overview.gpu": "utilization_percent tensor_core_percent"},
    "ncu/scan_metrics_raw.csv.gz": {"roofline": "flops bytes"},
    "memory/gpt_memory_snapshot.pickle.gz": {"memory.growth": "allocated_start_bytes growth_bytes"},
}
"""A recording for each value that is declared as one that may be null, in which it is."""
NEVER_NULL = {
    "overview.gpu": "device",
    "kernels": "tensor_cores",
    "communication.kernels": "total_us mean_us percent",
    "collectives": "kind total_us mean_us shortest_us",
    "collective_pairs": "source target group bytes total_us",
    "host_functions": "percent",
    "ranges": "device_us device_self_us gpu_ops by_category",
    "configurations": "occupancy_percent",
    "counters": "grid block occupancy_percent",
    "counters_by_kernel": "occupancy_percent",
    "memory.holders": "percent",
    "memory.oom": "at_us device_free_bytes allocated_bytes reserved_bytes own stack",
    # of inference servers and replayed graphs only: test_serving
    "overview.served": "busy_percent launches kernels gap_us",
    "overview.served_work": "gpu_us attention_us gemm_us",
    "overview.served_sizes": "tokens_per_s",
    # read on request only: test_gaps
    "gaps": "device step call behind launched_after_us next path path_percent",
    # only with proofs beside a run: test_try
    "tried": "step_us gain_percent low_percent high_percent rounds memory_bytes results write risk problem beside",
    # only with samples beside a run: test_sampling
    "host_stacks": "step_us percent self_percent samples",
    "host_lines": "function step_us percent path_percent samples mostly_in called_from",
    # read on request only: test_nsys_beside
    "source_lines": "percent stall stall_percent sectors_per_request surplus_percent",
    "threads": "process thread program name on_cpu_us percent turns samples samples_percent",
    "cpu_functions": "module process thread thread_name",
    "os_calls": "process thread thread_name caller",
    "gpu_samples": (
        "kernel calls samples sm_active_percent sm_issue_percent tensor_percent warps_percent dram_read_percent "
        "dram_write_percent pcie_rx_percent pcie_tx_percent nvlink_rx_percent nvlink_tx_percent clock_mhz"
    ),
    "unified_memory": "cause process device faults bytes total_us",
    "ranks": (
        "kernel_us compute_us communication_us idle_us behind_percent own_gpu_us silent_us excess_us "
        "wait_us late_us last collectives"
    ),
    "stragglers": "cause",
    "transfers": "group group_size bytes exposed_us algbw_gbps busbw_gbps",
    "stages": "own_gpu_us bubble_us bubble_percent ideal_percent micro_batches",
}
"""What the analysis leaves unknown where it must, though none of these recordings makes it do so."""


def _values(keys: dict[str, str]) -> set[str]:
    return {f"{section}.{key}" for section, names in keys.items() for key in names.split()}


def test_what_may_be_null_is_so_somewhere() -> None:
    shown = set[str]().union(*map(_values, NULL_IN.values()))
    assert shown | _values(NEVER_NULL) == may_be_null({**LISTS, **OF_RUN})
    assert not shown & _values(NEVER_NULL)


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_key_of_the_contract(found: Callable[[str], dict[str, Any]], name: str) -> None:
    whole = found(name)
    assert not wrong("report", whole)
    assert set(whole["run"]) == {
        "path", "traces", "main", "joins", "comparable", "captures", "counters_compared", "passes", "warnings",
        "other_runs", "configuration_weights", "job", *OF_RUN,
    }  # fmt: skip
    unknown = {key for section in OF_RUN for key in nulls(section, whole["run"][section])}
    for trace in whole["run"]["traces"]:
        assert set(trace) == {*OF_TRACE, "kernels_by", "kernel_groups"}
        if trace["source"]["kind"] in ("ncu", "memory_snapshot"):
            assert not any(trace[section] for section in OF_TIMELINE)
        unknown.update(key for path in LISTS for key in nulls(path, rows_at(trace, path)))
    assert json.loads(to_json(whole)) == whole
    assert to_builtins(as_structs(whole)) == whole
    assert _values(NULL_IN.get(name, {})) <= unknown
    assert not unknown & _values(NEVER_NULL)


@pytest.mark.parametrize("name", CHROME)
def test_a_distribution_counts_every_launch(found: Callable[[str], dict[str, Any]], name: str) -> None:
    for trace in found(name)["run"]["traces"]:
        for kernel in trace["kernels"]:
            spread = kernel["distribution"]
            least, p95, most = (kernel[f"{name}_us"] for name in ("min", "p95", "max"))
            assert (spread is None) == (least == most), kernel["name"]
            if spread is not None:
                assert sum(spread["counts"]) == kernel["calls"]
                assert len(spread["edges_us"]) == len(spread["counts"]) + 1
                assert spread["edges_us"][0] <= least <= p95 <= most < spread["edges_us"][-1]
        for lane in (trace["overview"] or {"lanes": {"lanes": []}})["lanes"]["lanes"]:
            assert len(lane["cells"]) == 120
            assert sum(lane["cells"]) / 120 == pytest.approx(lane["busy_percent"], abs=0.01)
            assert 0 < lane["busy_percent"] <= 100


def test_the_numbers_are_those_of_the_analysis(recording: Callable[[str], Trace]) -> None:
    (found,) = report_of(VIM)["run"]["traces"]
    sel = select(recording(VIM))
    head = overview(sel)
    assert found["overview"]["average_step_us"] == head.average_step_ns / 1000
    assert found["overview"]["waits_for"]["sentence"] == head.verdict.sentence
    table = kernels(sel)
    assert [row["name"] for row in found["kernels"]] == table["name"].cast(str).to_list()
    assert [row["total_us"] for row in found["kernels"]] == [ns / 1000 for ns in table["total_ns"]]
    assert [row["percent"] for row in found["kernels"]] == table["percent"].to_list()
    table = operators(sel)
    assert [row["name"] for row in found["operators"]] == table["name"].to_list()
    assert [row["device_total_us"] for row in found["operators"]] == [ns / 1000 for ns in table["device_total_ns"]]
    table = modules(sel)
    assert [row["path"] for row in found["modules"]] == table["path"].to_list()
    assert [row["kernels"] for row in found["modules"]] == table["kernels"].to_list()


@pytest.mark.parametrize("section", sorted(set(SECTIONS) & OF_TRACE))
def test_a_section_alone_is_that_of_the_whole(section: str) -> None:
    (alone,), (whole,) = (found["run"]["traces"] for found in (report(run_of(VIM), sections=[section]), report_of(VIM)))
    assert alone[section] == whole[section]


def test_sections_choose_what_is_computed() -> None:
    (found,) = report(run_of(VIM), sections=["kernels", "launches"])["run"]["traces"]
    assert set(found) == {*ALWAYS, "tensor_cores", "kernels", "launches"}
    with pytest.raises(ValueError, match="no section named 'kernel'"):
        report(run_of(VIM), sections=["kernel"])


def test_a_limit_cuts_lists_and_counts_keep_the_whole() -> None:
    whole = report_of(VIM)["run"]["traces"][0]
    cut = report(run_of(VIM), limit=3)["run"]["traces"][0]
    assert whole["counts"] == cut["counts"]
    for name in ("kernels", "operators", "modules", "api", "host_functions"):
        assert cut[name] == whole[name][:3]
        assert cut["counts"][name] == len(whole[name]) > 3


def test_a_scope_reaches_every_section() -> None:
    run = run_of(VIM)
    (whole,) = report_of(VIM)["run"]["traces"]
    (one,) = report(run, Scope(steps=(2, 2)))["run"]["traces"]
    assert one["base"] == "step 2"
    assert one["overview"]["steps"] == 1
    for name in ("kernels", "operators", "api", "memops"):
        calls = sum(row["calls"] for row in one[name])
        assert 0 < calls < sum(row["calls"] for row in whole[name]), name
    assert sum(row["calls"] for row in one["kernels"]) * 3 == sum(row["calls"] for row in whole["kernels"])


def test_events_are_accounted_for() -> None:
    for path in sorted(recorded("broken").iterdir()):
        (trace,) = report(open_path(path, cache=False), sections=[])["run"]["traces"]
        source = trace["source"]
        lost = sum(note["count"] for note in source["skipped"])
        assert source["events_parsed"] + lost == source["events_total"], path.name


def test_nothing_obeyed_by_a_terminal_is_in_the_json() -> None:
    text = to_json({"name": "\x1b[31m\x9b\x7f\u202e\udc80 ×", "list": ["\n"]})
    assert json.loads(text) == {"name": "\x1b[31m\x9b\x7f\u202e\udc80 ×", "list": ["\n"]}
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "×" in text


def test_json_has_no_nan() -> None:
    assert us(float("nan")) is None
    with pytest.raises(ValueError, match="Out of range"):
        to_json({"x": float("nan")})


def test_rows_rename_units_and_keep_unknown_columns() -> None:
    import polars as pl

    frame = pl.DataFrame(
        {
            "name": ["a", "b"],
            "total_ns": [1500, None],
            "percent": [float("nan"), 2.0],
            "modules": [[{"path": "M_0", "calls": 1, "ns": 1500}], None],
        }
    )
    assert rows(frame, ("name", "total_ns", "percent", "absent_ns", "modules"), 1) == [
        {
            "name": "a",
            "total_us": 1.5,
            "percent": None,
            "absent_us": None,
            "modules": [{"path": "M_0", "calls": 1, "us": 1.5}],
        }
    ]
    assert rows(frame, ("total_ns",))[1] == {"total_us": None}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_key_of_the_diff(a: str, b: str) -> None:
    found = reported.compared(recorded(a), recorded(b))
    assert not wrong("diff", found)
    assert set(found["rests_on"]) == {"step", *OF_GPU, *OF_NAMES}
    assert json.loads(to_json(found)) == found
    if (a, b) == PAIRS[0]:
        unknown = {key for section in COMPARED for key in nulls(section, found[section])}
        assert unknown == may_be_null(COMPARED)


def test_the_diff_adds_up(recording: Callable[[str], Trace]) -> None:
    found = reported.compared(recorded(VIM), recorded(VIM_FP16))
    assert {row["status"] for row in found["kernels"]} >= {"added", "changed"}
    effects = sum(row["count_effect_us"] + row["mean_effect_us"] for row in found["waterfall"])
    assert effects == pytest.approx(_gpu_us(recording(VIM_FP16)) - _gpu_us(recording(VIM)), abs=1e-6)


def _gpu_us(trace: Trace) -> float:
    """GPU time per step."""
    work = trace.device.filter(trace.device["step"].is_not_null() & (trace.device["kind"] != "annotation"))
    return int(work["duration"].sum()) / 1000 / trace.steps.height
