"""The JSON contract: every key on real recordings, and the same numbers as the analysis functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tracetui.analysis.base.json_values import us
from tracetui.analysis.kernels import kernels
from tracetui.analysis.modules import modules
from tracetui.analysis.operators import operators
from tracetui.analysis.overview import CATEGORIES, overview
from tracetui.analysis.report.report import SECTIONS, diff_report, report
from tracetui.analysis.report.rows import rows
from tracetui.analysis.selection import Scope, select
from tracetui.app.reports.json_report import to_json
from tracetui.parsers import open_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tracetui.parsers import Run, Trace

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_FP16 = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"
TWO_RANKS = "chrome/ddp_vit_small_2ranks"
RECORDINGS = [
    VIM,
    GPT,
    "chrome/cudagraph_replay.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
    "chrome/forms/amd_mi250_rocm.json.gz",
    "chrome/forms/cpu_only_rank34.json.gz",
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz",
    "chrome/hta_trace_diff/control.json.gz",
    "chrome/hta_trace_diff/test.json.gz",
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz",
    "broken/empty_events.json",
    "broken/only_metadata_events.json",
]

NONE = type(None)
TEXT, WHOLE, REAL, FLAG = (str,), (int,), (float,), (bool,)
MAYBE_TEXT, MAYBE_WHOLE, MAYBE_REAL = (str, NONE), (int, NONE), (float, NONE)
NOTE = {"reason": TEXT, "count": WHOLE, "example": TEXT}
COST = {"us": REAL, "percent": MAYBE_REAL}
IDLE = {"host_wait_percent": MAYBE_REAL, "kernel_wait_percent": MAYBE_REAL, "other_percent": MAYBE_REAL}
TIMES = {"total_us": REAL, "mean_us": REAL, "median_us": REAL, "min_us": REAL, "max_us": REAL, "std_us": REAL}
RULE = {
    "kind": TEXT,
    "section": MAYBE_TEXT,
    "name": TEXT,
    "speedup_percent": MAYBE_REAL,
    "speedup_type": MAYBE_TEXT,
    "text": MAYBE_TEXT,
}
COUNTERS = {
    "short_name": TEXT,
    "range": MAYBE_TEXT,
    "launches": WHOLE,
    "duration_us": MAYBE_REAL,
    "sm_percent": MAYBE_REAL,
    "memory_percent": MAYBE_REAL,
    "dram_percent": MAYBE_REAL,
    "occupancy_percent": MAYBE_REAL,
    "theoretical_occupancy_percent": MAYBE_REAL,
    "occupancy_limiter": MAYBE_TEXT,
    "l1_hit_percent": MAYBE_REAL,
    "l2_hit_percent": MAYBE_REAL,
    "l1_percent": MAYBE_REAL,
    "l2_percent": MAYBE_REAL,
    "registers": MAYBE_WHOLE,
    "shared_memory": MAYBE_WHOLE,
    "waves": MAYBE_REAL,
    "tensor_percent": MAYBE_REAL,
    "tensor_cores": (bool, NONE),
    "dram_bytes": MAYBE_REAL,
    "bound": MAYBE_TEXT,
    "missing": [TEXT],
    "rules": [RULE],
}
FINDING = {
    "id": TEXT,
    "severity": TEXT,
    "title": TEXT,
    "impact_us": MAYBE_REAL,
    "ceiling_percent": MAYBE_REAL,
    "evidence": [
        {
            "label": TEXT,
            "value": (float, int, str),
            "unit": TEXT,
            "tab": MAYBE_TEXT,
            "filter": MAYBE_TEXT,
            "row": MAYBE_TEXT,
        }
    ],
    "formula": TEXT,
    "threshold": TEXT,
    "advice": TEXT,
    "next_command": TEXT,
    "reference": TEXT,
    "remarks": [TEXT],
}
FINDINGS = {
    "findings": [FINDING],
    "findings_suppressed": [{**FINDING, "by": TEXT}],
    "findings_silenced": [{**FINDING, "reason": TEXT}],
    "findings_abstained": [{"id": TEXT, "missing": TEXT}],
    "findings_checked": [TEXT],
}
TRACE: dict[str, Any] = {
    "source": {
        "path": TEXT,
        "kind": TEXT,
        "tool": TEXT,
        "tool_version": MAYBE_TEXT,
        "rank": MAYBE_WHOLE,
        "world_size": MAYBE_WHOLE,
        "bytes": WHOLE,
        "events_total": WHOLE,
        "events_parsed": WHOLE,
        "partial": FLAG,
        "captured": dict,
        "skipped": [NOTE],
        "repaired": [NOTE],
        "missing": [NOTE],
    },
    "device": [
        {
            "id": WHOLE,
            "name": MAYBE_TEXT,
            "compute_capability": MAYBE_TEXT,
            "sm_count": MAYBE_WHOLE,
            "memory_bytes": MAYBE_WHOLE,
        }
    ],
    "base": TEXT,
    "totals_base": TEXT,
    "counts": dict,
    "overview": {
        "steps": WHOLE,
        "base": TEXT,
        "average_step_us": REAL,
        "categories": dict.fromkeys(CATEGORIES, COST),
        "per_step": [{"index": WHOLE, "name": TEXT, "us": REAL, "categories": dict.fromkeys(CATEGORIES, COST)}],
        "gpu": [
            {
                "device": WHOLE,
                "name": MAYBE_TEXT,
                "busy_percent": MAYBE_REAL,
                "utilization_percent": MAYBE_REAL,
                "sm_efficiency_percent": MAYBE_REAL,
                "occupancy_percent": MAYBE_REAL,
                "tensor_core_percent": MAYBE_REAL,
            }
        ],
        "idle": {**IDLE, "idle_us": MAYBE_REAL, "per_device": [{"device": WHOLE, "idle_us": REAL, **IDLE}]},
        "overlap_percent": MAYBE_REAL,
        "lanes": {
            "step": MAYBE_WHOLE,
            "us": MAYBE_REAL,
            "lanes": [
                {
                    "kind": TEXT,
                    "device": MAYBE_WHOLE,
                    "stream": MAYBE_WHOLE,
                    "process": MAYBE_WHOLE,
                    "thread": MAYBE_WHOLE,
                    "name": MAYBE_TEXT,
                    "busy_percent": REAL,
                    "cells": [REAL],
                }
            ],
        },
        "waits_for": {"what": TEXT, "sentence": TEXT},
    },
    "kernels": [
        {
            "name": TEXT,
            "short_name": TEXT,
            "category": TEXT,
            "calls": WHOLE,
            "in_steps_us": MAYBE_REAL,
            "percent": MAYBE_REAL,
            **TIMES,
            "occupancy_percent": MAYBE_REAL,
            "blocks_per_sm": MAYBE_REAL,
            "registers": MAYBE_WHOLE,
            "shared_memory": MAYBE_WHOLE,
            "tensor_cores": FLAG,
            "tensor_cores_from": TEXT,
            "module": MAYBE_TEXT,
            "operator": MAYBE_TEXT,
            "range": MAYBE_TEXT,
            "modules": [{"path": TEXT, "calls": WHOLE, "us": REAL}],
            "operators": [{"name": TEXT, "calls": WHOLE, "us": REAL}],
            "p95_us": MAYBE_REAL,
            "distribution": (dict, NONE),
            "counters": dict,
        }
    ],
    "memops": [
        {
            "kind": TEXT,
            "name": TEXT,
            "calls": WHOLE,
            "total_us": REAL,
            "mean_us": REAL,
            "bytes": MAYBE_WHOLE,
            "throughput_gbps": MAYBE_REAL,
        }
    ],
    "operators": [
        {
            "name": TEXT,
            "calls": WHOLE,
            "host_self_us": REAL,
            "host_total_us": REAL,
            "device_self_us": REAL,
            "device_total_us": REAL,
            "kernels": WHOLE,
            "percent": MAYBE_REAL,
            "tensor_core_eligible": FLAG,
            "tensor_core_percent": MAYBE_REAL,
        }
    ],
    "modules": [
        {
            "path": TEXT,
            "name": TEXT,
            "class_name": MAYBE_TEXT,
            "depth": WHOLE,
            "calls": WHOLE,
            "host_self_us": MAYBE_REAL,
            "host_total_us": MAYBE_REAL,
            "device_self_us": REAL,
            "device_total_us": REAL,
            "backward_device_us": MAYBE_REAL,
            "kernels": WHOLE,
        }
    ],
    "host_functions": [
        {
            "kind": TEXT,
            "name": TEXT,
            "calls": WHOLE,
            "self_us": REAL,
            "total_us": REAL,
            "self_per_step_us": REAL,
            "percent": MAYBE_REAL,
            "waits": FLAG,
        }
    ],
    "api": [{"name": TEXT, "calls": WHOLE, **TIMES, "percent": MAYBE_REAL}],
    "ranges": [
        {
            "name": TEXT,
            "domain": TEXT,
            "style": (str, NONE),
            "instances": WHOLE,
            "host_total_us": REAL,
            "gpu_projected_us": MAYBE_REAL,
            "device_us": MAYBE_REAL,
            "device_self_us": MAYBE_REAL,
            "gpu_ops": (int, NONE),
            "by_category": (dict, list, NONE),
        }
    ],
    "range_tree": [
        {
            "path": TEXT,
            "name": TEXT,
            "domain": TEXT,
            "depth": WHOLE,
            "calls": WHOLE,
            "host_self_us": MAYBE_REAL,
            "host_total_us": MAYBE_REAL,
            "gpu_projected_us": MAYBE_REAL,
            "device_self_us": REAL,
            "device_total_us": REAL,
            "device_meanwhile_us": MAYBE_REAL,
            "gpu_ops": WHOLE,
        }
    ],
    "launches": {
        "count": WHOLE,
        "short_kernels": WHOLE,
        "runtime_outliers": WHOLE,
        "delay_outliers": WHOLE,
        "median_delay_us": MAYBE_REAL,
    },
    "communication": {
        "communication_us": MAYBE_REAL,
        "compute_us": MAYBE_REAL,
        "overlap_us": MAYBE_REAL,
        "overlap_percent": MAYBE_REAL,
        "kernels": [
            {
                "name": TEXT,
                "short_name": TEXT,
                "calls": WHOLE,
                "total_us": REAL,
                "mean_us": REAL,
                "percent": MAYBE_REAL,
            }
        ],
    },
    "counters": [{"launch": WHOLE, "kernel": TEXT, "grid": (list, NONE), "block": (list, NONE), **COUNTERS}],
    "counters_by_kernel": [
        {
            "kernel": TEXT,
            "total_us": MAYBE_REAL,
            "duration_min_us": MAYBE_REAL,
            "duration_max_us": MAYBE_REAL,
            "grid": (list, NONE),
            "block": (list, NONE),
            **{key: kinds for key, kinds in COUNTERS.items() if key != "range"},
            "registers": MAYBE_REAL,
            "shared_memory": MAYBE_REAL,
            "rules": [{**RULE, "launches": WHOLE, "gain_us": MAYBE_REAL}],
        }
    ],
    "counters_missing": (dict, NONE),
    "roofline": [
        {
            "letter": MAYBE_TEXT,
            "name": TEXT,
            "short_name": TEXT,
            "origin": TEXT,
            "launches": WHOLE,
            "total_us": MAYBE_REAL,
            "flops": MAYBE_REAL,
            "bytes": MAYBE_REAL,
            "precision": MAYBE_TEXT,
            "achieved_flops": MAYBE_REAL,
            "achieved_bytes": MAYBE_REAL,
            "intensity": MAYBE_REAL,
            "peak_flops": MAYBE_REAL,
            "attained_percent": MAYBE_REAL,
            "memory_roof_percent": MAYBE_REAL,
            "compute_roof_percent": MAYBE_REAL,
            "roof": MAYBE_TEXT,
            "bound": MAYBE_TEXT,
            "gap_us": MAYBE_REAL,
            "unknown": list,
        }
    ],
    "roofline_peaks": {
        "device": MAYBE_TEXT,
        "compute_capability": MAYBE_TEXT,
        "compute": [{"precision": TEXT, "flops": REAL, "ridge": MAYBE_REAL, "source": TEXT, "about": TEXT}],
        "bandwidth": (dict, NONE),
        "covered_percent": MAYBE_REAL,
        "unknown": list,
    },
    "memory": {
        "peak_allocated_bytes": MAYBE_WHOLE,
        "peak_reserved_bytes": MAYBE_WHOLE,
        "on_gpu": FLAG,
        "peak_device": MAYBE_WHOLE,
        "peak_time_us": MAYBE_REAL,
        "peaks": [
            {
                "device_type": MAYBE_WHOLE,
                "device": MAYBE_WHOLE,
                "allocated_bytes": MAYBE_WHOLE,
                "reserved_bytes": MAYBE_WHOLE,
            }
        ],
        "unused_percent": MAYBE_REAL,
        "end_allocated_bytes": MAYBE_WHOLE,
        "end_reserved_bytes": MAYBE_WHOLE,
        "fragmentation_percent": MAYBE_REAL,
        "segments": (dict, NONE),
        "curve": [{"at_us": MAYBE_REAL, "allocated_bytes": MAYBE_WHOLE, "reserved_bytes": MAYBE_WHOLE}],
        "holders": [
            {
                "by": TEXT,
                "name": TEXT,
                "bytes": WHOLE,
                "percent": MAYBE_REAL,
                "allocations": MAYBE_WHOLE,
                "largest_bytes": MAYBE_WHOLE,
                "own": MAYBE_TEXT,
                "library": MAYBE_TEXT,
                "stack": MAYBE_TEXT,
            }
        ],
        "long_lived": [
            {
                "by": TEXT,
                "name": TEXT,
                "bytes": WHOLE,
                "kept_bytes": WHOLE,
                "allocations": WHOLE,
                "steps": MAYBE_WHOLE,
                "largest_bytes": WHOLE,
                "own": MAYBE_TEXT,
                "library": MAYBE_TEXT,
                "stack": MAYBE_TEXT,
            }
        ],
        "growth": [
            {
                "index": WHOLE,
                "name": TEXT,
                "allocated_start_bytes": MAYBE_WHOLE,
                "allocated_end_bytes": MAYBE_WHOLE,
                "growth_bytes": MAYBE_WHOLE,
                "peak_bytes": MAYBE_WHOLE,
            }
        ],
        "oom": [dict],
    },
    **FINDINGS,
}
CHANGE = {
    "name": TEXT,
    "status": TEXT,
    "a_calls": MAYBE_REAL,
    "b_calls": MAYBE_REAL,
    "a_us": MAYBE_REAL,
    "b_us": MAYBE_REAL,
    "delta_us": REAL,
    "noise_us": MAYBE_REAL,
}
SIDE = {"path": TEXT, "name": TEXT, "rank": MAYBE_WHOLE, "base": TEXT}
DIFF: dict[str, Any] = {
    "schema": TEXT,
    "a": SIDE,
    "b": SIDE,
    "comparable": {
        "verdict": TEXT,
        "differences": [{"field": TEXT, "a": object, "b": object, "matters": FLAG, "intended": FLAG}],
    },
    "step": {
        "a_us": MAYBE_REAL,
        "b_us": MAYBE_REAL,
        "delta_us": MAYBE_REAL,
        "delta_percent": MAYBE_REAL,
        "noise_us": MAYBE_REAL,
        "a_median_us": MAYBE_REAL,
        "b_median_us": MAYBE_REAL,
        "median_delta_us": MAYBE_REAL,
        "median_delta_percent": MAYBE_REAL,
        "median_noise_us": MAYBE_REAL,
        "beyond_noise": (bool, NONE),
    },
    "split": [{"part": TEXT, "a_us": REAL, "b_us": REAL, "delta_us": REAL}],
    "waterfall": [{"category": TEXT, "count_effect_us": REAL, "mean_effect_us": REAL}],
    "kernels": [{"short_name": TEXT, "b_name": MAYBE_TEXT, "paired_by": MAYBE_TEXT, **CHANGE}],
    "operators": [CHANGE],
    "modules": [CHANGE],
    "ranges": [CHANGE],
    **FINDINGS,
    "counts": dict,
}


def conforms(value: Any, shape: Any, where: str = "") -> None:
    """Fails where a key is missing, too many, or of another type than the contract says."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), where
        assert list(value) == list(shape) or set(value) == set(shape), f"{where}: {set(value) ^ set(shape)}"
        for key, inner in shape.items():
            conforms(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        for n, item in enumerate(value):
            conforms(item, shape[0], f"{where}[{n}]")
    else:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        assert isinstance(value, kinds), f"{where}: {value!r} is no {kinds}"
        # a bool is an int to isinstance, but not to a reader of JSON
        assert not isinstance(value, bool) or bool in kinds or object in kinds, where


@pytest.fixture(scope="session")
def opened(shared_data: Path) -> Callable[[str], Run]:
    known: dict[str, Run] = {}

    def get(name: str) -> Run:
        if name not in known:
            known[name] = open_path(shared_data / name, cache=False)
        return known[name]

    return get


RUN_KEYS = {
    "path", "traces", "main", "joins", "comparable", "captures", "counters_compared", "warnings", "other_runs", "ranks",
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_key_of_the_contract(opened: Callable[[str], Run], name: str) -> None:
    found = report(opened(name))
    assert found["schema"] == "tracetui.report/1"
    assert set(found["run"]) == RUN_KEYS
    for trace in found["run"]["traces"]:
        conforms(trace, TRACE, name)
    assert json.loads(to_json(found)) == found


@pytest.mark.parametrize("name", RECORDINGS)
def test_categories_sum_to_the_step(opened: Callable[[str], Run], name: str) -> None:
    (trace,) = report(opened(name), sections=["overview"])["run"]["traces"]
    found = trace["overview"]
    if not found["average_step_us"]:
        return
    assert sum(cost["percent"] for cost in found["categories"].values()) == pytest.approx(100, abs=1e-9)
    assert sum(cost["us"] for cost in found["categories"].values()) == pytest.approx(found["average_step_us"])
    for step in found["per_step"]:
        assert sum(round(cost["us"] * 1000) for cost in step["categories"].values()) == round(step["us"] * 1000)


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_distribution_counts_every_launch(opened: Callable[[str], Run], name: str) -> None:
    for trace in report(opened(name), sections=["kernels", "overview"])["run"]["traces"]:
        for row in trace["kernels"]:
            spread = row["distribution"]
            assert (spread is None) == (row["min_us"] == row["max_us"]), row["name"]
            if spread is not None:
                assert sum(spread["counts"]) == row["calls"]
                assert len(spread["edges_us"]) == len(spread["counts"]) + 1
                assert spread["edges_us"][0] <= row["min_us"] <= row["p95_us"] <= row["max_us"] < spread["edges_us"][-1]
        for lane in (trace["overview"] or {"lanes": {"lanes": []}})["lanes"]["lanes"]:
            assert len(lane["cells"]) == 120
            assert sum(lane["cells"]) / 120 == pytest.approx(lane["busy_percent"], abs=0.01)
            assert 0 < lane["busy_percent"] <= 100


def test_the_numbers_are_those_of_the_analysis(opened: Callable[[str], Run], recording: Callable[[str], Trace]) -> None:
    (found,) = report(opened(VIM))["run"]["traces"]
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


def test_sections_choose_what_is_computed(opened: Callable[[str], Run]) -> None:
    (found,) = report(opened(VIM), sections=["kernels", "launches"])["run"]["traces"]
    assert set(found) == {"source", "device", "base", "totals_base", "counts", "kernels", "launches"}
    with pytest.raises(ValueError, match="no section named 'kernel'"):
        report(opened(VIM), sections=["kernel"])
    beside = {
        "source",
        "device",
        "base",
        "totals_base",
        "counts",
        "counters_by_kernel",
        "counters_missing",
        "roofline_peaks",
    }
    beside |= set(FINDINGS) - {"findings"}
    assert set(SECTIONS) - {"ranks", "captures"} == set(TRACE) - beside


def test_a_limit_cuts_lists_and_counts_keep_the_whole(opened: Callable[[str], Run]) -> None:
    whole = report(opened(VIM))["run"]["traces"][0]
    cut = report(opened(VIM), limit=3)["run"]["traces"][0]
    assert whole["counts"] == cut["counts"]
    for name in ("kernels", "operators", "modules", "api", "host_functions"):
        assert cut[name] == whole[name][:3]
        assert cut["counts"][name] == len(whole[name]) > 3


def test_a_scope_reaches_every_section(opened: Callable[[str], Run]) -> None:
    run = opened(VIM)
    (whole,) = report(run)["run"]["traces"]
    (one,) = report(run, Scope(steps=(2, 2)))["run"]["traces"]
    assert one["base"] == "step 2"
    assert one["overview"]["steps"] == 1
    for name in ("kernels", "operators", "api", "memops"):
        calls = sum(row["calls"] for row in one[name])
        assert 0 < calls < sum(row["calls"] for row in whole[name]), name
    assert sum(row["calls"] for row in one["kernels"]) * 3 == sum(row["calls"] for row in whole["kernels"])


def test_ranks(opened: Callable[[str], Run]) -> None:
    found = report(opened(TWO_RANKS), sections=["ranks"])["run"]
    assert [trace["source"]["rank"] for trace in found["traces"]] == [0, 1]
    assert [row["rank"] for row in found["ranks"] if row["straggler"]] == [1]
    assert all(isinstance(row["compute_us"], float) for row in found["ranks"])
    assert report(opened(VIM), sections=["ranks"])["run"]["ranks"] == []


def test_events_are_accounted_for(shared_data: Path) -> None:
    for path in sorted((shared_data / "broken").iterdir()):
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


def test_every_key_of_the_diff(recording: Callable[[str], Trace]) -> None:
    a, b = select(recording(VIM)), select(recording(VIM_FP16))
    found = diff_report(a, b)
    conforms(found, DIFF)
    assert found["schema"] == "tracetui.diff/1"
    assert json.loads(to_json(found)) == found
    assert {row["status"] for row in found["kernels"]} >= {"added", "removed"}
    effects = sum(row["count_effect_us"] + row["mean_effect_us"] for row in found["waterfall"])
    assert effects == pytest.approx(_gpu_us(recording(VIM_FP16)) - _gpu_us(recording(VIM)), abs=1e-6)


def _gpu_us(trace: Trace) -> float:
    """GPU time per step."""
    work = trace.device.filter(trace.device["step"].is_not_null() & (trace.device["kind"] != "annotation"))
    return int(work["duration"].sum()) / 1000 / trace.steps.height


def test_a_run_compared_with_itself_has_not_changed(recording: Callable[[str], Trace]) -> None:
    sel = select(recording(VIM))
    found = diff_report(sel, sel)
    assert found["step"]["delta_us"] == 0
    assert {row["status"] for name in ("kernels", "operators", "modules") for row in found[name]} == {"same"}
    assert found["comparable"] == {"verdict": "comparable", "differences": []}


def test_other_hardware_is_not_comparable(recording: Callable[[str], Trace]) -> None:
    resnet = select(recording("chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz"))
    found = diff_report(select(recording(VIM)), resnet)["comparable"]
    assert found["verdict"] == "not_comparable"
    assert "gpu" in {row["field"] for row in found["differences"] if row["matters"]}
