"""Rules on two runs, on real pairs and on pairs made from published numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judged import find
from sweep_maker import write_run

from tracetui.analysis.compare.repeats import RunsDifference, runs_difference
from tracetui.analysis.findings import catalogue
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.findings.core.finding import Finding, Findings
from tracetui.analysis.findings.pairs import comparison
from tracetui.parsers import Run, Trace, open_path

Recording = Callable[[str], Trace]

RULES = {id: catalogue.RULES[id] for id in ("D1", "D2", "D3", "D5", "D11")}
FP32 = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
FP16 = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
NO_WORKERS = "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz"
WORKERS = "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz"
CPU = "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"


def of(a: Trace, b: Trace, between: RunsDifference | None = None) -> Findings:
    sides = [Facts(Run(trace.source.path, (trace,)), trace) for trace in (a, b)]
    return find(Pair(*sides, between), rules=RULES)


def made(tmp_path: Path, *sides: dict[str, Any]) -> Findings:
    for name, side in zip("ab", sides, strict=True):
        write_run(tmp_path / name, **side)
    runs = [open_path(tmp_path / name, cache=False) for name in "ab"]
    return find(Pair(*(Facts(run) for run in runs)), rules=RULES)


def by_id(found: Findings) -> dict[str, Finding]:
    return {finding.id: finding for finding in found.found}


def abstained(found: Findings) -> dict[str, str]:
    return {row.id: row.missing for row in found.abstained}


def test_every_rule_is_declared() -> None:
    assert comparison.regression
    assert all(catalogue.RULES[id].subject == "pair" for id in RULES)


def test_the_loader_without_workers_is_a_regression_where_repeats_say_so(recording: Recording) -> None:
    single = of(recording(WORKERS), recording(NO_WORKERS))
    assert "D1" not in by_id(single)
    assert "three repeats" in abstained(single)["D1"]
    runs = runs_difference("recorded", (126e6, 127e6, 128e6), (176e6, 178e6, 180e6))
    found = by_id(of(recording(WORKERS), recording(NO_WORKERS), runs))["D1"]
    assert "40.2 % longer: 127.0 ms became 178.0 ms" in found.title
    assert found.impact_ns == pytest.approx(51e6)
    assert ("host wait: data loader", "ns") in [(item.label, item.unit) for item in found.evidence]
    assert found.severity == "critical"


def test_the_other_way_round_is_none(recording: Recording) -> None:
    assert "D1" not in by_id(of(recording(NO_WORKERS), recording(WORKERS)))


def test_a_change_within_the_noise_is_no_regression(recording: Recording) -> None:
    found = of(recording(FP32), recording(FP16))  # +12.6 % of the median, but these steps vary by more
    assert "D1" not in by_id(found)
    assert "D1" in abstained(found)


def test_a_regression_needs_steps(recording: Recording) -> None:
    assert "two steps" in abstained(of(recording("chrome/cudagraph_replay.trace.json.gz"), recording(FP32)))["D1"]


def test_casts_are_the_added_kernels(recording: Recording) -> None:
    found = by_id(of(recording(FP32), recording(FP16)))["D2"]
    assert found.title.startswith("B launches 106 kernels more per step (+15.6 %), yet GPU time falls")
    assert found.evidence[2].label.startswith("elementwise: copy fp16")


def test_a_run_against_itself(recording: Recording) -> None:
    assert of(recording(FP32), recording(FP32)).found == ()


def test_without_a_gpu_nothing_is_said_of_kernels(recording: Recording) -> None:
    missing = abstained(of(recording(CPU), recording(CPU)))
    assert {"D2", "D3", "D11"} <= set(missing)


def test_convolutions_that_run_other_kernels_on_equal_inputs(recording: Recording) -> None:
    found = by_id(of(recording(NO_WORKERS), recording(WORKERS)))["D3"]
    assert found.title.startswith("7 operator shapes run other kernels for the same inputs")
    assert "dgrad_engine" in str(found.evidence[0].value)


def test_other_types_are_no_other_algorithm(recording: Recording) -> None:
    found = of(recording(FP32), recording(FP16))
    assert "D3" not in by_id(found)
    assert "D3" in found.checked


def test_algorithms_need_operators(recording: Recording) -> None:
    found = abstained(of(recording(FP32), recording("nsys/vim_tiny_fp32_bs4.sqlite.gz")))
    assert found["D3"].startswith("B: operators")


def test_the_waterfall_names_what_moved(recording: Recording) -> None:
    found = by_id(of(recording(FP32), recording(FP16)))["D11"]
    assert "-7.4 %" in found.title
    assert "gemm -681.8 µs, copy +311.6 µs" in found.title
    assert found.formula.endswith("together -234.2 µs")


def test_runs_that_are_not_comparable_say_so(recording: Recording) -> None:
    traces = recording(FP32), recording("nsys/vim_tiny_fp32_bs4.sqlite.gz")
    found = by_id(find(Pair(*(Facts(Run(trace.source.path, (trace,)), trace) for trace in traces))))
    assert found["V14"].title == "The runs are not comparable: they differ in tool"
    assert any("V14" in remark for remark in found["D11"].remarks)


def test_a_regression_under_other_conditions_is_only_told(recording: Recording) -> None:
    a, b = (recording(f"chrome/hta_trace_diff/{name}.json.gz") for name in ("control", "test"))  # A100, V100
    assert by_id(of(a, b))["D1"].severity == "info"


PUBLISHED = {
    # a token-reducing DeiT at 224 and 448 px: step ms, kernels, G multiply-adds, without and with reduction
    224: ((154.34, 6856, 17.5687), (82.39, 7422, 5.5531)),
    448: ((568.49, 6855, 78.52), (243.60, 7370, 24.73)),
}


def side(step_ms: float, kernels: int, gmacs: float) -> dict[str, Any]:
    step = 1000 * step_ms
    each = round(0.9 * step / kernels, 3)
    return {
        "steps_us": [step, step * 1.001, step * 0.999],
        "kernels": {"sgemm_128x64": (6800, each), "topk_kernel": (kernels - 6800, each)},
        "flops_per_step": int(2e9 * gmacs),
    }


@pytest.mark.parametrize(("size", "lost"), [(224, "40.8"), (448, "26.5")])
def test_published_numbers_less_work_than_time(tmp_path: Path, size: int, lost: str) -> None:
    base, reduced = (side(*numbers) for numbers in PUBLISHED[size])
    found = by_id(made(tmp_path, base, reduced))
    assert f"{lost} % of the speed-up that the work allows is lost" in found["D5"].formula
    assert "D1" not in found
    more = PUBLISHED[size][1][1] - PUBLISHED[size][0][1]
    assert found["D2"].title.startswith(f"B launches {more} kernels more per step")
    assert "yet GPU time falls" in found["D2"].title


def test_less_work_that_takes_longer(tmp_path: Path) -> None:
    base, reduced = side(5.9, 6856, 17.57), side(7.1, 7422, 5.55)
    found = by_id(made(tmp_path, base, reduced))
    assert found["D5"].title == "B does 68.4 % less work but takes 20.3 % longer time"
    assert "D1" in found


def test_as_much_less_time_as_work_is_fine(tmp_path: Path) -> None:
    found = made(tmp_path, side(100, 6900, 20), side(50, 6900, 10))
    assert "D5" in found.checked
    assert "D5" not in by_id(found)


def test_work_needs_flops(tmp_path: Path, recording: Recording) -> None:
    assert abstained(of(recording(FP32), recording(FP16)))["D5"].startswith("A: run.json")
    without = {**side(100, 6900, 20), "flops_per_step": None}
    assert "FLOPs" in abstained(made(tmp_path, without, without))["D5"]


def test_thresholds_are_the_users(recording: Recording) -> None:
    from tracetui.analysis.findings.config import Config

    config = Config(thresholds={"D1.regression_percent": 50})
    assert RULES["D1"].limits(config.thresholds).regression_percent == 50
    traces = recording(WORKERS), recording(NO_WORKERS)
    pair = Pair(*(Facts(Run(trace.source.path, (trace,)), trace) for trace in traces))
    assert "D1" not in by_id(find(pair, config, rules=RULES))


def test_the_diff_carries_findings_and_the_split(recording: Recording) -> None:
    from as_json import diff_report

    from tracetui.analysis.selection import select
    from tracetui.app.reports.json_report import to_json

    found = diff_report(select(recording(WORKERS)), select(recording(NO_WORKERS)))
    assert "D12" in {row["id"] for row in found["findings"]}
    assert sum(row["delta_us"] for row in found["split"]) == pytest.approx(found["step"]["delta_us"], abs=1e-6)
    gpu = next(row["delta_us"] for row in found["split"] if row["part"] == "gpu_time")
    effects = sum(row["count_effect_us"] + row["mean_effect_us"] for row in found["waterfall"])
    assert effects == pytest.approx(gpu, abs=1e-6)
    assert json.loads(to_json(found)) == found
