"""What changed between two runs: alignment, signs, noise, and a waterfall that adds up."""

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest

from tracetui.analysis.compare import step_difference
from tracetui.analysis.compare.diff import PARTS, diff, kernels_inside
from tracetui.analysis.compare.step_difference import median_factor
from tracetui.analysis.matching.join import pairs
from tracetui.analysis.selection import Scope, select
from tracetui.parsers import Trace

Recording = Callable[[str], Trace]

FP32 = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
FP16 = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
NO_WORKERS = "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz"
WORKERS = "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"


def test_fp32_against_fp16(recording: Recording) -> None:
    found = diff(select(recording(FP32)), select(recording(FP16)))
    kernels = {(row["short_name"], row["status"]): row for row in found.kernels.iter_rows(named=True)}
    swapped = kernels["sm80_xmma_gemm_f32_tn_n_64x64x8_ffma", "changed"]
    assert (swapped["paired_by"], swapped["operator"], swapped["a_calls"]) == ("operator", "aten::mm", 96)  # per step
    added = kernels["elementwise: copy fp16", "added"]
    assert (added["a_calls"], added["a_ns"], added["delta_ns"]) == (0, 0, added["b_ns"])
    assert set(found.kernels["status"]) == {"added", "changed", "same"}
    assert found.kernels["delta_ns"].abs().is_sorted(descending=True)
    mm = found.operators.filter(pl.col("name") == "aten::mm").row(0, named=True)
    assert mm["delta_ns"] < 0
    assert mm["a_calls"] == mm["b_calls"] == 192
    root = found.modules.filter(pl.col("name") == "VisionMamba_0").row(0, named=True)
    assert root["delta_ns"] == pytest.approx(-232_502.3, abs=0.1)
    effects = {row["category"]: row for row in found.waterfall.iter_rows(named=True)}
    assert effects["copy"]["count_effect_ns"] > 0  # the casts
    assert effects["scan"]["count_effect_ns"] == 0


def test_a_small_shift_is_noise_a_large_one_is_not(recording: Recording) -> None:
    trace = recording(FP32)
    scan = pl.col("name").cast(pl.String).str.contains("selective_scan")

    def slower(percent: int) -> dict[str, str]:
        spent = pl.when(scan).then(pl.col("duration") * (100 + percent) // 100).otherwise("duration")
        other = replace(trace, device=trace.device.with_columns(spent.alias("duration")))
        found = diff(select(trace), select(other)).kernels
        return dict(found.select("short_name", "status").iter_rows())

    own = diff(select(trace), select(trace)).kernels.filter(pl.col("short_name").str.contains("selective"))
    assert 0 < own["noise_ns"].item() < 0.1 * own["a_ns"].item()
    assert slower(0)["selective_scan_fwd_kernel"] == "same"
    assert slower(20)["selective_scan_fwd_kernel"] == "changed"


@pytest.mark.parametrize("pair", [(FP32, FP16), (NO_WORKERS, WORKERS), (GPT, GPT)])
def test_the_step_is_split_exactly(recording: Recording, pair: tuple[str, str]) -> None:
    found = diff(select(recording(pair[0])), select(recording(pair[1])))
    assert found.split["part"].to_list() == list(PARTS)
    for column, whole in (("a_ns", found.step.a_ns), ("b_ns", found.step.b_ns), ("delta_ns", found.step.delta_ns)):
        assert found.split[column].sum() == pytest.approx(whole, abs=1e-3)
    gpu = found.split.filter(pl.col("part") == "gpu_time")["delta_ns"].item()
    effects = found.waterfall["count_effect_ns"].sum() + found.waterfall["mean_effect_ns"].sum()
    assert gpu == pytest.approx(effects, abs=1e-3)


def test_the_split_names_who_waits(recording: Recording) -> None:
    found = diff(select(recording(NO_WORKERS)), select(recording(WORKERS)))
    moved = dict(found.split.select("part", "delta_ns").iter_rows())
    assert moved["host_wait"] == pytest.approx(-38_644_667, abs=1)
    assert abs(moved["gpu_time"]) < 2e6
    waits = dict(found.waiting.select("part", "delta_ns").iter_rows())
    assert min(waits, key=lambda part: waits[part]) == "loader"
    assert waits["loader"] == pytest.approx(-57_550_000, abs=1)
    assert sum(waits.values()) == pytest.approx(moved["host_wait"], abs=1)


def test_ranks_and_streams_that_overlap_still_add_up(recording: Recording) -> None:
    a, b = (recording(f"chrome/hta_trace_diff/{name}.json.gz") for name in ("control", "test"))
    found = diff(select(a), select(b))
    assert found.split["delta_ns"].sum() == pytest.approx(found.step.delta_ns, abs=1e-3)
    assert found.split.filter(pl.col("part") == "overlap")["b_ns"].item() < 0


def test_medians_and_their_noise(recording: Recording) -> None:
    step = diff(select(recording(FP32)), select(recording(FP16))).step
    assert step.median_delta_percent == pytest.approx(12.58, abs=0.01)
    assert step.median_noise_ns == pytest.approx(step.noise_ns * median_factor(3))  # type: ignore[operator]
    assert step.detectable_ns == pytest.approx(step.median_noise_ns * step_difference.reach(0.975, 0.8, 4))  # type: ignore[operator]
    assert step.beyond_noise is False
    assert diff(select(recording(NO_WORKERS)), select(recording(WORKERS))).step.beyond_noise is True
    assert diff(select(recording(FP32), Scope(steps=(1, 1))), select(recording(FP16))).step.beyond_noise is None


def test_element_sizes_and_vector_widths_follow_from_the_type() -> None:
    flip = "void at::native::index_elementwise_kernel<128, 4, at::native::OpaqueType<{}> >(long)"
    add = "void at::native::vectorized_elementwise_kernel<{}, at::native::CUDAFunctor_add<{}>, char*>(int)"
    unlike = "void at::native::elementwise_kernel<{}, 4, at::native::CUDAFunctor_mul<float> >(int)"
    a = [flip.format(4), add.format(4, "float"), unlike.format(128)]
    b = [flip.format(2), add.format(8, "c10::Half"), unlike.format(64)]
    found = pairs(a, b)
    assert {name: how for name, (_, how) in found.items()} == {b[0]: "types", b[1]: "types"}
    assert (found[b[0]][0], found[b[1]][0]) == (a[0], a[1])


def test_what_launches_the_same_work_is_the_same_however_often_it_is_called(recording: Recording) -> None:
    found = diff(select(recording(FP32)), select(recording(FP16)))
    exp = found.operators.filter(name="aten::exp").row(0, named=True)
    kernel = found.kernels.filter(pl.col("name").str.contains("exp_kernel_cuda")).row(0, named=True)
    assert (exp["a_calls"], exp["b_calls"]) == (48, 96)  # autocast calls it once more
    assert (exp["a_ns"], exp["b_ns"]) == (kernel["a_ns"], kernel["b_ns"])
    assert exp["status"] == kernel["status"] == "same"
    in_both = pl.col("status").is_in(["same", "changed"])
    without_work = found.operators.filter(in_both, a_ns=0, b_ns=0)
    assert without_work.filter(pl.col("a_calls") != pl.col("b_calls")).height > 1
    assert set(without_work["status"]) == {"same"}


def test_ranges_are_compared_by_what_any_thread_launched(recording: Recording) -> None:
    a = select(recording("nsys/gpt_small_ctx256.sqlite.gz"))
    found = diff(a, a).ranges
    assert found["delta_ns"].to_list() == [0] * found.height
    assert found["status"].unique().to_list() == ["same"]
    backward = found.filter(name="backward_pass").row(0, named=True)
    assert backward["a_calls"] == 1
    assert backward["a_ns"] > 10_000_000  # autograd's thread, which has no range, launched it
    assert found.filter(name="step").row(0, named=True)["a_ns"] > backward["a_ns"]  # called train_step
    inside = kernels_inside(a, a, "ranges", "backward_pass")
    assert 0.99 * backward["a_ns"] < inside["a_ns"].sum() <= backward["a_ns"]
    assert kernels_inside(a, a, "ranges", "step")["a_ns"].sum() == pytest.approx(diff(a, a).kernels["a_ns"].sum())


def test_steps_are_one_range_whatever_they_are_called(recording: Recording) -> None:
    a, b = select(recording("nsys/gpt_small_ctx256.sqlite.gz")), select(recording(FP32))
    step = diff(a, b).ranges.filter(name="step").row(0, named=True)
    assert step["status"] == "changed"
    assert (step["a_calls"], step["b_calls"]) == (1, 1)


def test_without_gpu_work_ranges_have_host_time(recording: Recording) -> None:
    a = select(recording("chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"))
    step = diff(a, a).ranges.filter(name="step").row(0, named=True)
    assert step["a_ns"] == pytest.approx(a.steps["duration"].mean())
