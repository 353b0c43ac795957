"""F3: matrix work whose operands are not aligned; and what F1 counts around fp32 products."""

from pathlib import Path

import pytest
from made_run import ADD, FLIP, HGEMM, SGEMM, Made, finding, silent
from sample_runs import run_of

from tracetui.analysis.findings.core.facts import Facts
from tracetui.parsers.names.kernel_types import bytes_at_a_time

ALIGN1 = (
    "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>"
    "(cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1::Params)"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (ALIGN1, 2),
        ("cutlass_80_wmma_tensorop_f16_s161616gemm_f16_32x32_64x1_tn_align2", 4),
        ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8", 16),
        ("cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align1", 4),
        ("cutlass_80_tensorop_s1688gemm_128x64_32x6_nn_align4", 16),
        ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", 16),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x64x32_tensor16x8x16_aligna2_alignc2_execute_cublas", 4),
        # not on tensor cores, of unknown type, without a word on it
        ("cutlass_80_simt_sgemm_64x64_8x5_tt_align1", None),
        ("cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1", None),
        ("ampere_h16816gemm_128x64_ldg8_stages_32x6_tn", None),
        (HGEMM, None),
        (ADD, None),
    ],
)
def test_how_much_a_kernel_reads_at_a_time(name: str, expected: int | None) -> None:
    assert bytes_at_a_time(name) == expected


def _products(tmp_path: Path, *kernels: tuple[str, float], shapes: list[list[int]] | None = None) -> Facts:
    """Two steps in which each kernel is launched in time by an operator of its own."""
    made, at = Made(), 0.0
    for number in range(2):
        begin = at
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 20, begin + sum(lasts for _, lasts in kernels))
        for place, (name, lasts) in enumerate(kernels):
            more = {"Input Dims": shapes, "Input type": ["c10::BFloat16"] * 2} if shapes and name == ALIGN1 else {}
            made.host("cpu_op", "aten::mm", begin + place, begin + place + 0.9, **more)
            made.launch(name, (begin + place + 0.1, begin + place + 0.8), (at, at + lasts))
            at += lasts
        made.step(number, begin, at)
    return made.facts(tmp_path)


def test_f3_bounds_the_gain_by_their_roofs(tmp_path: Path) -> None:
    sizes = [[8192, 2047], [2047, 2047]]
    found = finding("F3", _products(tmp_path, (ALIGN1, 520), (HGEMM, 480), shapes=sizes))
    assert found.title == "Pad matrix sizes to 16 bytes: unaligned products take 52.0 % of kernel time"
    at_roof = 2 * 8192 * 2047 * 2047 / 989e12 * 1e9
    assert found.impact_ns == pytest.approx(520_000 - at_roof, abs=1_500)
    assert found.severity == "critical"
    assert any("2047" in str(each.value) for each in found.evidence)


def test_f3_without_shapes_supposes_that_they_take_no_time(tmp_path: Path) -> None:
    found = finding("F3", _products(tmp_path, (ALIGN1, 520), (HGEMM, 480)))
    assert found.impact_ns == pytest.approx(520_000, abs=1_500)
    assert "without them" in found.formula


def test_f3_is_silent_where_operands_are_aligned_or_it_matters_little(tmp_path: Path) -> None:
    assert silent("F3", _products(tmp_path, (ALIGN1.replace("align1", "align8"), 520), (HGEMM, 480)))
    assert silent("F3", _products(tmp_path, (ALIGN1, 20), (HGEMM, 980)))
    assert silent("F3", _products(tmp_path, (SGEMM, 520), (HGEMM, 480)))


def test_f3_on_layers_of_2047() -> None:
    """Layers of 2048 in place of 2047 took 2.93 ms a step, measured beside it, and not 11.73 ms."""
    found = finding("F3", Facts(run_of("limits/odd_sizes")))
    gained = 11.730 - 2.929
    assert gained * 1e6 <= found.impact_ns <= 1.1 * gained * 1e6


def test_f1_counts_what_its_operators_launch_with_the_products(tmp_path: Path) -> None:
    made, at = Made(), 0.0
    for number in range(2):
        begin = at
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 20, begin + 1000)
        made.host("cpu_op", "aten::cudnn_convolution", begin, begin + 10)
        for place, (name, lasts) in enumerate((("fft2d_r2c_32x32<float>", 100), (SGEMM, 500), ("fft2d_c2r", 100))):
            made.launch(name, (begin + 1 + 2 * place, begin + 2 + 2 * place), (at, at + lasts))
            at += lasts
        made.host("cpu_op", "aten::flip", begin + 11, begin + 15)
        made.launch(FLIP, (begin + 12, begin + 13), (at, at + 300))
        at += 300
        made.step(number, begin, at)
    found = finding("F1", made.facts(tmp_path))
    ratio = 989 / 66.9
    assert found.impact_ns == pytest.approx(1e3 * (500 * (1 - 1 / ratio) + 200), rel=0.01)
    assert "200.0 µs of what their operators launch" in found.formula


@pytest.mark.parametrize(("shape", "counts"), [([128, 512, 512], True), ([512, 512, 128], False)])
def test_f1_counts_conversions_of_what_fp32_products_read(tmp_path: Path, shape: list[int], counts: bool) -> None:
    """A product in bf16 needs no conversion of its operands to fp32; others stay."""
    made, at = Made(), 0.0
    product, types = [[128, 512, 512], [128, 512, 512]], ["float", "c10::BFloat16", ""]
    for number in range(2):
        begin = at
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 20, begin + 1000)
        for place, (name, kernel, lasts, dims) in enumerate(
            (("aten::copy_", "direct_copy_kernel_cuda", 400, [shape, shape, []]), ("aten::bmm", SGEMM, 600, product))
        ):
            given = {"Input Dims": dims, "Input type": types if place == 0 else ["float", "float"]}
            made.host("cpu_op", name, begin + 6 * place, begin + 6 * place + 5, **given)
            made.launch(kernel, (begin + 6 * place + 1, begin + 6 * place + 2), (at, at + lasts))
            at += lasts
        made.step(number, begin, at)
    found = finding("F1", made.facts(tmp_path))
    products = 1e3 * 600 * (1 - 66.9 / 989)
    assert found.least_ns == pytest.approx(products, rel=0.01)
    assert found.impact_ns == pytest.approx(products + 4e5 * counts, rel=0.01)
