"""Rooflines: work from operators' shapes and from counters, attained shares, the chart, the reports, the tab."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from as_json import report
from judged import find, fired, judged
from laid_out import body
from made_run import HGEMM, SGEMM, Made
from sample_runs import recorded, run_of
from tui_pilot import opened, press, screen_text

from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.finding import Finding
from tracetui.analysis.roofline.peaks import Peak, Peaks
from tracetui.analysis.roofline.roofline import Roofline, roofline
from tracetui.analysis.roofline.shapes import ONCE, Work, work
from tracetui.analysis.selection import Scope, select
from tracetui.app.charts.roofline import Ceiling, Point, roofline_chart, si
from tracetui.app.cli.main import main
from tracetui.parsers.runs.run import Run
from tracetui.parsers.trace import Trace

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
PEAKS = Peaks("a GPU", "9.0", {"fp32": Peak(100e12, "table", "")}, Peak(1e12, "table", ""))


def test_a_fused_kernel_moves_each_argument_at_least_once() -> None:
    types = ["c10::BFloat16", "c10::BFloat16", "Scalar"]
    shapes: list[list[int]] = [[1024, 64], [64], []]
    fused = of("triton_poi_fused_add_mul_0", shapes, types)
    assert fused == Work(65536.0, 2.0 * (65536 + 64), "bf16", note=ONCE)
    assert of("triton_red_fused_embedding_sum_1", shapes, types) is None  # it reads a part of its table
    assert of("triton_tem_fused_mm_2", shapes, types) is None


def line(trace: Trace, *more: Trace, peaks: Peaks | None = None) -> Roofline:
    return roofline(Run(Path("x"), (trace, *more)), select(trace), peaks)


def row(found: Roofline, name: str, origin: str = "shapes") -> dict[str, Any]:
    rows = found.points.filter(
        pl.col("name").str.contains(name, literal=True) & (pl.col("origin") == origin)
    ).to_dicts()
    assert rows, name
    return rows[0]


def of(name: str, shapes: object, types: object, **more: Any) -> Work | None:
    return work(name, json.dumps(shapes), json.dumps(types), **more)


# --- work from shapes


@pytest.mark.parametrize(
    ("name", "shapes", "types", "flops", "moved"),
    [
        ("aten::mm", [[768, 192], [192, 788]], ["float"] * 2,
         2 * 768 * 192 * 788, 4 * (768 * 192 + 192 * 788 + 768 * 788)),
        ("aten::addmm", [[1000], [4, 192], [192, 1000], [], []], ["c10::Half"] * 3 + ["Scalar"] * 2,
         2 * 4 * 192 * 1000, 2 * (1000 + 4 * 192 + 192 * 1000 + 4 * 1000)),
        ("aten::bmm", [[48, 256, 64], [48, 64, 256]], ["float"] * 2, 2 * 48 * 256 * 64 * 256,
         4 * 48 * (2 * 256 * 64 + 256 * 256)),
        ("aten::linear", [[4, 197, 192], [768, 192], [768]], ["float"] * 3, 2 * 4 * 197 * 192 * 768,
         4 * (4 * 197 * 192 + 768 * 192 + 4 * 197 * 768)),
        ("aten::_scaled_dot_product_flash_attention", [[2, 6, 100, 64]] * 3, ["c10::BFloat16"] * 3,
         4 * 2 * 6 * 100 * 100 * 64, 2 * 4 * 2 * 6 * 100 * 64),
        ("aten::_flash_attention_forward", [[2, 100, 6, 64]] * 3, ["c10::Half"] * 3,
         4 * 2 * 6 * 100 * 100 * 64, 2 * 4 * 2 * 6 * 100 * 64),
        ("aten::add", [[4, 197, 192], [1, 197, 192], []], ["float", "float", "Scalar"],
         4 * 197 * 192, 4 * (2 * 4 * 197 * 192 + 197 * 192)),
        ("aten::clamp_min", [[64, 10], [], [64, 10]], ["float", "Scalar", "float"], 640, 8 * 640),
        ("aten::div", [[64, 10], [], [64, 10]], ["float", "float", "float"], 640, 8 * 640 + 4),
        ("aten::copy_", [[100], [100], []], ["c10::Half", "float", "Scalar"], 0, 600),
        ("aten::cat", [[[4, 98, 192], [4, 1, 192]], []], ["TensorList", "Scalar"], 0, 2 * 4 * 4 * 99 * 192),
        ("aten::_softmax", [[512, 1024], [], []], ["float", "Scalar", "Scalar"], 5 * 512 * 1024, 8 * 512 * 1024),
        ("aten::sum", [[32, 1000], [], [], []], ["c10::BFloat16", "ScalarList", "Scalar", ""], 32000, 64000),
    ],
)  # fmt: skip
def test_flops_and_compulsory_bytes(name: str, shapes: object, types: object, flops: float, moved: float) -> None:
    found = of(name, shapes, types)
    assert found is not None
    assert (found.flops, found.bytes) == (flops, moved)


def test_the_flops_of_a_call_are_of_its_kernel_that_multiplies(tmp_path: Path) -> None:
    """A convolution may turn its operands around for longer than it computes: fp32 is not their product's roof."""
    made = Made()
    dims = {"Input Dims": [[64, 32], [32, 16]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    made.host("cpu_op", "aten::mm", 0, 100, **dims)
    turning = "void cudnn::engines_precompiled::nhwcToNchwKernel<__nv_bfloat16, float, true>(float const*, float*)"
    made.launch(turning, (10, 20), (100, 190))
    made.launch(HGEMM, (30, 40), (200, 210))
    points = line(made.trace(tmp_path)).points
    assert [(row["name"], row["total_ns"], row["flops"]) for row in points.to_dicts() if row["flops"]] == [
        (HGEMM, 100_000, 2.0 * 64 * 32 * 16)
    ]


def test_a_convolution_is_told_by_the_operator_after_it() -> None:
    shapes, types = [[4, 3, 224, 224], [192, 3, 16, 16]], ["float", "float"]
    assert of("aten::cudnn_convolution", shapes, types) is None
    found = of("aten::cudnn_convolution", shapes, types, after=[(7,), (4, 192, 14, 14)])
    assert found is not None
    assert found.flops == 2 * 4 * 192 * 14 * 14 * 3 * 16 * 16
    assert of("aten::cudnn_convolution", shapes, types, after=[(4, 192, 4000, 4000)]) is None
    back = of("aten::convolution_backward", [[4, 192, 14, 14], *shapes], ["float"] * 3)
    assert back is not None
    assert back.flops == 2 * found.flops


def test_the_scan() -> None:
    """Batch 120, as the program of the published case really ran: 187 MB in that text."""
    shapes = [[120, 768, 197], [384, 1, 4], [384], [44, 384], [384, 12], [192, 384], [], [384, 16]]
    found = of("MambaInnerFn", shapes, ["float"] * 8, kernel="scan")
    assert found is not None
    assert found.bytes == pytest.approx(187e6, rel=0.02)
    assert found.flops == 120 * 384 * 197 * (7 * 16 + 7)
    conv = of("MambaInnerFn", shapes, ["float"] * 8, kernel="conv")
    assert conv is not None
    assert conv.flops == 2 * 120 * 384 * 197 * 4
    assert of("MambaInnerFn", shapes, ["float"] * 8, kernel="elementwise") is None


@pytest.mark.parametrize(
    ("name", "shapes", "types"),
    [
        ("aten::mm", [[2, 3], [4, 5]], ["float", "float"]),
        ("aten::mm", [[2, 3]], ["float"]),
        ("aten::mm", [[2, "x"], [3, 4]], ["float", "float"]),
        ("aten::mm", [[2, 3], [3, 4]], ["float", "made up"]),
        ("aten::mm", None, None),
        ("aten::add", [[2, 3], [4, 5]], ["float", "float"]),
        ("aten::topk", [[8, 197]], ["float"]),
        ("aten::_foreach_mul_", [[], []], ["TensorList", "Scalar"]),
        ("aten::mul", [[], [8, 64], [8, 64]], ["double", "c10::complex<float>", "c10::complex<float>"]),
        ("MambaInnerFn", [[4, 768, 197]], ["float"]),
    ],
)
def test_what_the_shapes_do_not_tell_is_unknown(name: str, shapes: object, types: object) -> None:
    assert of(name, shapes, types, kernel="scan") is None


# --- rooflines of recordings


def test_products_of_known_size_reach_what_they_reach(recording: Callable[[str], Trace]) -> None:
    found = line(recording("ops/ops.trace.json.gz"))
    fp64 = row(found, "sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16")
    half = row(found, "nvjet_sm90_hsh_256x128")
    assert fp64["flops"] == half["flops"] == 2**35
    assert (fp64["precision"], fp64["bound"]) == ("fp64_tensor", "compute")
    assert fp64["attained_percent"] == pytest.approx(96.75, abs=0.01)
    assert (half["precision"], half["bound"]) == ("fp16_tensor", "compute")
    assert half["achieved_flops"] == half["flops"] / (half["total_ns"] / 1e9)
    assert half["attained_percent"] == pytest.approx(
        100 * half["achieved_flops"] / found.peaks.compute["fp16_tensor"].value
    )
    assert row(found, "tf32f32_f32_nn_n")["precision"] == "tf32_tensor"
    assert row(found, "f32f32_f32f32_f32_nn_n_tilesize256x128x8")["precision"] == "fp32"


def test_shapes_and_counters_agree_on_the_flops_of_a_product(recording: Callable[[str], Trace]) -> None:
    found = line(recording(VIM), recording("ncu/vim_full_raw.csv.gz"))
    name = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8"
    shapes, counters = row(found, name), row(found, name, "counters")
    assert shapes["flops"] == 2 * 768 * 192 * 788
    # tiles reach over the edge: 788 columns fill 13 tiles of 64
    assert counters["flops"] == pytest.approx(2 * 768 * 192 * 832, rel=0.01)
    assert counters["bound"] == "latency"
    assert shapes["bound"] == "latency"  # as ncu measured it
    assert row(line(recording(VIM)), name)["bound"] == "neither"


def test_the_formula_of_the_attained_share(recording: Callable[[str], Trace]) -> None:
    for one in (
        line(recording("ncu/vim_full_raw.csv.gz"), peaks=PEAKS).points.filter(precision="fp32").iter_rows(named=True)
    ):
        if one["compute_roof_percent"] is None:
            continue
        seconds = one["total_ns"] / one["launches"] / 1e9
        assert one["memory_roof_percent"] == pytest.approx(100 * one["bytes"] / 1e12 / seconds)
        assert one["intensity"] == pytest.approx(one["flops"] / one["bytes"])
        assert one["attained_percent"] >= max(one["compute_roof_percent"], one["memory_roof_percent"]) - 1e-9


def test_flops_of_tensor_cores_that_were_not_collected_are_unknown(recording: Callable[[str], Trace]) -> None:
    found = line(recording("ops/ops.ncu.csv.gz"))
    tensor = row(found, "nvjet_sm90_hsh_256x128", "counters")
    assert tensor["flops"] is tensor["intensity"] is tensor["attained_percent"] is tensor["letter"] is None
    assert "tensor FLOPs not collected" in tensor["unknown"]
    assert tensor["memory_roof_percent"] > 0
    plain = row(found, "tilesize256x128x8", "counters")
    assert plain["flops"] == pytest.approx(2**35, rel=0.001)
    assert any("FLOPs are at least these" in text for text in plain["unknown"])


def test_counters_without_flops(recording: Callable[[str], Trace]) -> None:
    one = row(line(recording("ncu/vim_full_details.csv.gz")), "selective_scan", "counters")
    assert one["flops"] is one["attained_percent"] is None
    assert "FLOPs not collected" in one["unknown"]


def test_unknown_roofs_leave_shares_unknown(recording: Callable[[str], Trace]) -> None:
    one = row(line(recording(VIM), peaks=Peaks()), "selective_scan")
    assert one["attained_percent"] is one["roof"] is one["gap_ns"] is None
    assert one["achieved_flops"] > 0
    assert "memory bandwidth" in one["unknown"]


def test_what_lies_above_a_roof_is_explained(recording: Callable[[str], Trace]) -> None:
    found = line(recording("chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz"))
    winograd = row(found, "winograd_128x128")
    assert winograd["attained_percent"] > 100
    assert any("Winograd" in text for text in winograd["unknown"])
    assert row(found, "clamp_min")["attained_percent"] == pytest.approx(91.8, abs=0.1)


CSRMM = (
    "void cusparse::csrmm_alg2_kernel<cusparse::CsrMMPolicy<float, false, false>, false, true, int, float>(int, int)"
)


def _sparse(folder: Path, kernel: str, *, says: str = "") -> Facts:
    """Products whose shapes, taken for dense, would be 14 PFLOP/s; the operator may ask what only sparse ones have."""
    made = Made()
    tensors = {"Input Dims": [[131072, 131072], [131072, 64]], "Input type": ["float", "float"]}
    for step in range(3):
        at = 1000 * step
        made.step(step, at, at + 999)
        made.host("cpu_op", "aten::mm", at + 1, at + 50, **tensors)
        if says:
            one = {"Input Dims": tensors["Input Dims"][:1], "Input type": ["float"]}
            made.host("cpu_op", says, at + 2, at + 3, **one)
        made.launch(kernel, (at + 10, at + 15), (at + 20, at + 177), grid=[8, 1, 1], block=[128, 1, 1])
        made.host(
            "cpu_op", "aten::mm", at + 60, at + 90, **{"Input Dims": [[4096, 4096]] * 2, "Input type": ["float"] * 2}
        )
        made.launch(SGEMM, (at + 70, at + 75), (at + 200, at + 900), grid=[9, 1, 1], block=[128, 1, 1])
    return made.facts(folder)


@pytest.mark.parametrize(("kernel", "says"), [(CSRMM, ""), ("own_kernel", "aten::_nnz"), (CSRMM, "aten::crow_indices")])
def test_the_work_of_sparse_products_is_unknown(tmp_path: Path, kernel: str, says: str) -> None:
    facts = _sparse(tmp_path, kernel, says=says)
    sparse, dense = row(facts.roofline, kernel.split("<")[0]), row(facts.roofline, SGEMM)
    assert (sparse["flops"], sparse["bytes"], sparse["achieved_flops"], sparse["attained_percent"]) == (None,) * 4
    assert any("sparse" in text for text in sparse["unknown"])
    assert dense["flops"] == 2 * 4096**3
    assert facts.roofline.covered_percent == pytest.approx(100 * 700 / 857)
    assert facts.roofline.work.filter(pl.col("name").str.starts_with(kernel[:8]))["flops"].to_list() == [None]
    assert judged("V15", facts) is None
    found = find(facts).found
    assert not [one for one in found if "roof" in one.title and kernel[:8] in one.title]


def test_recorded_sparse_products(recording: Callable[[str], Trace]) -> None:
    """CSR and COO times dense, 20,000² with 0.2 % of it not zero: as dense, 51 GFLOP in 50 to 80 µs each."""
    trace = recording("limits/sparse_products.pt.trace.json.gz")
    found = line(trace)
    assert row(found, "csrmm_alg2_kernel")["flops"] is None
    assert row(found, "csrmm_alg1_kernel")["bytes"] is None
    assert row(found, "clamp")["flops"] == 20000 * 64
    assert "V15" not in fired(Facts(Run(Path("x"), (trace,))))


def test_the_same_shapes_of_dense_products_contradict_physics(tmp_path: Path) -> None:
    said = judged("V15", _sparse(tmp_path, "own_kernel"))
    assert isinstance(said, Finding)
    assert "aten::mm" in said.title


def test_a_scope_and_the_share_that_is_covered(recording: Callable[[str], Trace]) -> None:
    trace = recording(VIM)
    whole, part = line(trace), roofline(None, select(trace, Scope(steps=(1, 1))))
    assert row(whole, "selective_scan")["launches"] == 3 * row(part, "selective_scan")["launches"] == 144
    assert whole.covered_percent == pytest.approx(91.5, abs=0.1)


@pytest.mark.parametrize(
    "name",
    ["chrome/cudagraph_replay.trace.json.gz", "chrome/forms/amd_mi250_rocm.json.gz", "jax/h200.trace.json.gz",
     "memory/gpt_memory_snapshot.pickle.gz", "nsys/graph_whole.sqlite.gz", "broken/empty_events.json",
     "broken/ok.json"],
)  # fmt: skip
def test_recordings_without_known_work(recording: Callable[[str], Trace], name: str) -> None:
    found = line(recording(name))
    assert found.points["attained_percent"].drop_nulls().len() == 0


# --- the chart


POINTS = [Point("A", 0.5, 2e11), Point("B", 60, 4e13), Point("C", 60, 4.1e13), Point("D", 0, 1e9)]
CEILINGS = [Ceiling("FP32", 67e12), Ceiling("FP16 tensor", 989e12)]


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize(("width", "height"), [(30, 7), (80, 16), (200, 50)])
def test_a_chart_keeps_to_its_room(width: int, height: int, ascii: bool) -> None:
    lines = roofline_chart(POINTS, CEILINGS, 4.8e12, width, height, ascii=ascii)
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert text.isascii() == ascii
    plot = "\n".join(line[6:] for line in lines[1:-2])
    assert plot.count("A") == 1
    assert len(re.findall(r"(?<![A-Z])[BC](?![A-Z])|BC|CB", plot)) >= 1
    assert "D" not in re.sub("[a-z/]", "", plot)


def test_no_room_no_chart() -> None:
    assert roofline_chart(POINTS, CEILINGS, 4.8e12, 29, 20) == []
    assert roofline_chart(POINTS, CEILINGS, 4.8e12, 80, 6) == []
    assert roofline_chart(POINTS, [], 4.8e12, 80, 20) == []
    assert roofline_chart(POINTS, CEILINGS, 0, 80, 20) == []
    assert len(roofline_chart([], CEILINGS, 4.8e12, 80, 20)) == 20


def test_higher_is_faster_and_right_is_denser() -> None:
    points = [Point("K", 1, 1e12), Point("L", 1, 1e11), Point("M", 30, 1e12)]
    lines = roofline_chart(points, [Ceiling("FP32", 67e12)], 4.8e12, 100, 30)
    place = {
        letter: (number, line.index(letter))
        for letter in "KLM"
        for number, line in enumerate(lines[1:-2])
        if letter in line[6:]
    }
    assert place["K"][0] < place["L"][0]
    assert place["K"][1] == place["L"][1] < place["M"][1]
    assert place["K"][0] == place["M"][0]


def test_points_far_below_are_drawn_at_the_edge() -> None:
    lines = roofline_chart([Point("A", 1e-6, 1.0)], [Ceiling("FP32", 67e12)], 4.8e12, 80, 20)
    assert any("A" in line[6:] for line in lines[1:-2])


@pytest.mark.parametrize(
    ("value", "text"),
    [(66.9e12, "66.9T"), (1e12, "1T"), (999.9e9, "1T"), (989.5e12, "990T"), (0.5, "0.5"), (1.1e15, "1.1P")],
)
def test_short_numbers(value: float, text: str) -> None:
    assert si(value) == text


# --- reports and the tab


def test_the_report(recording: Callable[[str], Trace]) -> None:
    (found,) = report(run_of(VIM), sections=["roofline"], limit=3)["run"]["traces"]
    assert [one["letter"] for one in found["roofline"]] == ["A", "B", "C"]
    assert found["counts"]["roofline"] == 17
    peaks = found["roofline_peaks"]
    assert peaks["device"] == "NVIDIA H200"
    assert {one["source"] for one in peaks["compute"]} == {"table"}
    fp32 = next(one for one in peaks["compute"] if one["precision"] == "fp32")
    assert fp32["ridge"] == pytest.approx(fp32["flops"] / peaks["bandwidth"]["bytes"])


@pytest.mark.parametrize("name", [VIM, "ncu/vim_full_raw.csv.gz"])
def test_text_and_markdown(capsys: pytest.CaptureFixture[str], name: str) -> None:
    for format in ("text", "markdown", "csv"):
        assert main(["report", str(recorded(name)), "--section", "roofline", "--format", format]) == 0
        said = capsys.readouterr().out
        assert "selective_scan" in said
        if format == "csv":
            assert said.startswith("letter,name,short_name,origin")
        else:
            assert "Roofs: FP32" in said
            assert "FLOP/byte" in said
        if format == "text":
            assert all(len(one) <= 80 for one in body(said).splitlines())
    assert main(["report", str(recorded(name)), "--section", "roofline", "--ascii"]) == 0
    assert capsys.readouterr().out.isascii()


async def test_the_tab_without_counters() -> None:
    async with opened(recorded(VIM)) as (app, pilot):
        await press(pilot, "6")
        text = screen_text(app)
        assert "Roofline" in text
        assert "by operators' shapes" in text
        assert "FLOP/s ↑" in text
        assert "selective_scan_fwd_kernel" in text
        assert "FP32 66.9 TFLOP/s" in text


async def test_the_tab_with_counters() -> None:
    async with opened(recorded("ncu/vim_full_raw.csv.gz"), size=(120, 40)) as (app, pilot):
        await press(pilot, "6")
        assert "FLOP/s ↑" not in screen_text(app)
        await press(pilot, "v", "v", "v", "v")
        text = screen_text(app)
        assert "FLOP/s ↑" in text
        assert "(counters, ridge 14.2 FLOP/byte)" in text
        await press(pilot, "v")
        assert "FLOP/s ↑" not in screen_text(app)
