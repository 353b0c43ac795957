"""Rules of the framework: precision, casts, the optimizer, attention, fusion, layout."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_run import (
    ADD,
    FLIP,
    H200,
    HGEMM,
    LOG_SOFTMAX,
    ORIN,
    SGEMM,
    SOFTMAX,
    TO_HALF,
    V100,
    Made,
    facts_of,
    finding,
    look,
    missing,
    silent,
)  # fmt: skip
from nsys_file import NsysFile
from sample_runs import recorded

from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.gpu import fusion, kernel_kinds
from tracetui.parsers import Trace, open_path
from tracetui.parsers.names.kernel_names import fp32_matrix_work

FRAMEWORK = ("F1", "F2", "F4", "F6", "F7", "F11", "F12")
VIM, HALF = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz", "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
DEIT = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"
GPT, GPT_NSYS = "chrome/gpt_small_ctx256.trace.json.gz", "nsys/gpt_small_ctx256.sqlite.gz"
RESNET = "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz"
AMD = "chrome/forms/amd_mi250_rocm.json.gz"
PLAIN_HALF = (
    "void implicit_convolve_sgemm<__half, __half, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int, int, int,"
    " __half const*, int, __half*, __half const*, kernel_conv_params)"
)
SUM = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float,"
    " at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>,"
    " unsigned int, float, 4, 4> >(int)"
)
DGEMM = "sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_cublas"
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::TensorListMetadata<2>, at::native::(anonymous namespace)::TernaryOpScalarFunctor<float, 2, 2, 0>,"
    " at::native::LerpFunctor<float>, float>(int)"
)
FUSED = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>>(int)"
)


def _busy(*kernels: tuple[str, float], device: dict[str, object] = H200) -> Made:
    """Two steps in which these kernels (name, µs) follow each other without a pause, launched in time."""
    made, at = Made(device), 0.0
    for number in range(2):
        begin = at
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + len(kernels), begin + sum(k[1] for k in kernels))
        for place, (name, lasts) in enumerate(kernels):
            made.launch(name, (begin + place, begin + place + 1), (at, at + lasts))
            at += lasts
        made.step(number, begin, at)
    return made


def _value(found: object, label: str) -> object:
    return next(e.value for e in found.evidence if e.label.startswith(label))  # type: ignore[attr-defined]


# --- every rule


def test_a_clean_gpu_bound_run_is_clean(tmp_path: Path) -> None:
    facts = _busy((HGEMM, 800), (HGEMM, 150), (ADD, 50)).facts(tmp_path)
    assert all(silent(rule, facts) for rule in FRAMEWORK)


# --- F1: fp32 without TF32


def test_f1_is_bounded_by_the_ratio_of_the_peaks(tmp_path: Path) -> None:
    found = finding("F1", _busy((SGEMM, 800), (HGEMM, 200)).facts(tmp_path))
    ratio = 989.42976 / 66.90816  # H200: 132 SMs, 2048 FMA at 1.83 GHz by 128 at 1.98 GHz
    assert _value(found, "fp16 peak by fp32 peak") == pytest.approx(ratio)
    assert found.impact_ns == pytest.approx(800_000 * (1 - 1 / ratio), abs=1)
    assert found.ceiling_percent == pytest.approx(80 * (1 - 1 / ratio), abs=0.01)
    assert _value(found, "step shorter with TF32") == pytest.approx(80 * (1 - 66.90816 / 494.71488), abs=0.01)
    assert "set_float32_matmul_precision" in found.advice
    assert "14.8×" in found.formula


def test_f1_advises_no_tf32_where_it_is_no_faster(tmp_path: Path) -> None:
    rtx = {**H200, "name": "NVIDIA GeForce RTX 3060", "computeMajor": 8, "computeMinor": 6, "numSms": 28}
    said = finding("F1", _busy((SGEMM, 900), (ADD, 100), device=rtx).facts(tmp_path))
    assert _value(said, "TF32 peak by fp32 peak") == 1
    assert said.advice.startswith("TF32 is no faster than fp32 on this GPU")
    assert "set_float32_matmul_precision" not in said.advice
    assert "set_float32_matmul_precision" in finding("F1", _busy((SGEMM, 900), (ADD, 100)).facts(tmp_path)).advice


def test_f1_is_next_to_nothing_on_a_launch_bound_run(recording: Callable[[str], Trace]) -> None:
    """Half of vim_tiny's kernel time is fp32 GEMMs, and making them faster gains nothing: K14 leaves the advice out."""
    said = look("F1", facts_of(recording(VIM)))
    (left_out,) = said.suppressed
    assert left_out.by == "K14"
    # 0.05 % by faster products, the rest by launches of partial sums beside them
    assert left_out.finding.ceiling_percent == pytest.approx(0.6, abs=0.05)
    assert left_out.finding.sure_percent == 0
    assert "is 0 to" in left_out.finding.formula
    assert _value(left_out.finding, "of kernel time") == pytest.approx(52.5, abs=0.1)


def test_f1_trusts_steps_without_a_profiler_that_the_gpu_is_the_limit(recording: Callable[[str], Trace]) -> None:
    """21.4 ms of GPU work per step: under nsys a step takes 34.3 ms, and a clean one of 22 ms has no slow host."""
    trace = recording(GPT_NSYS)
    open_ = facts_of(trace)
    assert open_.model is not None
    assert open_.model.waits_for == "unknown"
    unsure = finding("F1", open_)
    assert unsure.severity == "warning"
    assert unsure.sure_percent == pytest.approx(1.0, abs=0.1)
    facts = facts_of(replace(trace, clean_step_ns=(22_000_000,) * 5))
    assert facts.model is not None
    assert facts.model.waits_for == "gpu"
    found = finding("F1", facts)
    assert found.sure_percent == pytest.approx(
        19.6, abs=0.3
    )  # then the host is the limit, if it is the slowest that fits
    assert found.ceiling_percent == pytest.approx(67.2, abs=0.3)
    saved = 0.782 * 20_283_130 * (1 - 66.90816 / 989.42976)
    assert found.impact_ns is not None
    assert unsure.impact_ns is not None
    assert max(found.impact_ns, unsure.impact_ns) < 1.001 * saved
    assert "14.78 ms of it saved" in found.formula


@pytest.mark.parametrize(
    "made",
    [_busy((SGEMM, 50), (HGEMM, 950)), _busy((SGEMM, 900), (HGEMM, 100), device=V100), _busy((DGEMM, 900), (ADD, 99))],
    ids=["little", "no TF32", "fp64"],
)
def test_f1_is_silent(made: Made, tmp_path: Path) -> None:
    assert silent("F1", made.facts(tmp_path))


def test_f1_is_silent_about_other_makers(recording: Callable[[str], Trace]) -> None:
    """ROCm calls the MI250's architecture 9.0."""
    assert silent("F1", facts_of(recording(AMD)))


def test_f1_needs_the_compute_capability(tmp_path: Path, recording: Callable[[str], Trace]) -> None:
    assert "compute capability" in missing("F1", _busy((SGEMM, 900), device={"id": 0}).facts(tmp_path)).missing
    assert "JAX's profiler" in missing("F2", facts_of(recording("jax/h200.trace.json.gz"))).missing


def test_precision_by_name() -> None:
    fp32 = fp32_matrix_work
    assert fp32("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4")
    assert fp32("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)")
    assert fp32("volta_scudnn_128x64_relu_interior_nn_v1")
    assert fp32("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)")
    for other in (
        PLAIN_HALF,
        DGEMM,
        HGEMM,
        ADD,
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128>(int)",
    ):
        assert not fp32(other)


# --- F2: tensor cores


def test_f2_finds_idle_tensor_cores_on_a_v100(recording: Callable[[str], Trace]) -> None:
    found = finding("F2", facts_of(recording(RESNET)))
    assert _value(found, "fp16 peak by fp32 peak") == pytest.approx(8.0)
    saved = 0.62694 * 99_144_667 * 7 / 8
    assert f"{saved / 1e6:.2f} ms of it saved" in found.formula
    assert found.impact_ns == pytest.approx(29_594_800, rel=0.01)  # then the host, as recorded, is the limit
    assert found.severity == "warning"
    assert "GradScaler" in found.advice


def test_f2_looks_for_shapes_where_the_type_would_fit(tmp_path: Path) -> None:
    found = finding("F2", _busy((PLAIN_HALF, 600), (ADD, 400)).facts(tmp_path))
    assert _value(found, "of kernel time") == pytest.approx(60)
    assert "multiples of 8" in found.advice


@pytest.mark.parametrize(
    "made",
    [
        _busy((HGEMM, 1), (SGEMM, 900), device=V100),
        _busy((SGEMM, 900), (ADD, 100)),
        _busy((DGEMM, 900), (ADD, 100), device=V100),
        _busy((ADD, 900), device=V100),
        _busy((SGEMM, 900), device={**V100, "name": "Tesla P100", "computeMajor": 6}),
    ],
    ids=["used", "fp32 is F1's", "fp64", "nothing eligible", "no tensor cores"],
)
def test_f2_is_silent(made: Made, tmp_path: Path) -> None:
    assert silent("F2", made.facts(tmp_path))


def test_f2_abstains_where_names_do_not_tell(tmp_path: Path) -> None:
    """Triton's matrix products use tensor cores and don't say so."""
    facts = _busy(("triton_tem_fused_mm_3", 600), (ADD, 400)).facts(tmp_path)
    assert missing("F2", facts).missing.startswith("whether triton_tem_fused_mm_3 uses tensor cores: ncu ")
    assert silent("F1", facts)


def test_ratios_without_a_known_product(tmp_path: Path) -> None:
    unknown = {"id": 0, "name": "NVIDIA Prototype", "computeMajor": 9, "computeMinor": 0}
    found = finding("F1", _busy((SGEMM, 800), (HGEMM, 200), device=unknown).facts(tmp_path))
    assert "16×, 2048 by 128 FMA per SM and clock" in found.formula
    later = {**unknown, "computeMajor": 99}
    found = finding("F1", _busy((SGEMM, 800), (HGEMM, 200), device=later).facts(tmp_path))
    assert found.ceiling_percent == pytest.approx(80)
    assert "peaks unknown" in found.formula


def test_f2_asks_the_counters() -> None:
    """Of the 43 launches of `ops`, Nsight Compute saw tensor cores in some that do not say so in their names."""
    run = open_path(recorded("ops"))
    facts = Facts(run)
    by_name = kernel_kinds.on_tensor_cores(facts_of(run.main))
    by_counters = kernel_kinds.on_tensor_cores(facts)
    assert facts.counters is not None
    told = dict(facts.counters.kernels.select("name", "tensor_cores").drop_nulls().iter_rows())
    names = facts.launches["name"].cast(str).to_list()
    assert [bool(used) for used in by_counters] == [told.get(name, bool(used)) for name, used in zip(names, by_name)]  # noqa: B905
    assert silent("F2", facts)


# --- F4: the optimizer


def _optimizer(kernel: str, number: int, parameters: int = 0, name: str = "Optimizer.step#AdamW.step") -> Made:
    """Two steps: 5 ms of GEMMs, then an optimizer that launches so many kernels of 10 µs, each 50 µs apart."""
    made, at = Made(), 0.0
    for step in range(2):
        begin = at
        made.launch(HGEMM, (at, at + 10), (at + 10, at + 5000))
        for grad in range(parameters):
            made.host("cpu_op", "torch::autograd::AccumulateGrad", at + 20 + grad, at + 20.5 + grad)
        at += 5000
        made.host("user_annotation", name, at, at + 50 * number)
        for _ in range(number):
            made.launch(kernel, (at, at + 10), (at + 15, at + 25))
            at += 50
        made.step(step, begin, at)
    return made


def test_f4_counts_kernels_per_parameter(tmp_path: Path) -> None:
    found = finding("F4", _optimizer(ADD, 80, parameters=20).facts(tmp_path))
    assert _value(found, "kernels per call") == 80
    assert _value(found, "parameter tensors") == 20
    assert _value(found, "optimizer on the host") == 4_000_000
    assert found.ceiling_percent == pytest.approx(100 * 4 / 9, abs=0.2)
    assert found.advice.startswith("Pass fused=True")
    assert "foreach=True" in found.advice


def test_f4_suggests_fused_to_foreach(tmp_path: Path) -> None:
    found = finding("F4", _optimizer(FOREACH, 40, parameters=160).facts(tmp_path))
    assert "one operation at a time (foreach)" in found.formula
    assert "foreach=True" not in found.advice


def test_f4_knows_ranges_of_users_and_counts_without_gradients(tmp_path: Path) -> None:
    file = NsysFile()
    file.launch(HGEMM, call=(1000, 1100), kernel=(2000, 9900))
    file.push_pop("optimizer_step", 10_000, 210_000)
    file.launch(HGEMM, call=(211_000, 211_100), kernel=(212_000, 219_900))
    for at in range(10_000, 210_000, 1000):
        file.launch(ADD, call=(at, at + 500), kernel=(at + 600, at + 700))
    found = finding("F4", facts_of(open_path(file.write(tmp_path / "a.sqlite"), cache=False).main))
    assert _value(found, "kernels per call") == 200


@pytest.mark.parametrize(
    "made",
    [
        _optimizer(FUSED, 40, parameters=20),
        _optimizer(ADD, 6, parameters=3),
        _optimizer(ADD, 40, parameters=40),
        _optimizer(ADD, 40, parameters=20, name="my optimizer"),
    ],
    ids=["fused", "short", "one per parameter", "no such range"],
)
def test_f4_is_silent(made: Made, tmp_path: Path) -> None:
    assert silent("F4", made.facts(tmp_path))


def test_f4_keeps_the_longest_operation_of_foreach_where_names_tell_it(tmp_path: Path) -> None:
    def gained(*names: str) -> float:
        made, at = Made(), 0.0
        for number in range(2):
            begin = at
            made.host("user_annotation", "Optimizer.step#Adam.step", begin, begin + 20)
            made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 25, begin + 1000)
            for place, (name, lasts) in enumerate(zip(names, (500, 300, 200), strict=True)):
                made.launch(name, (begin + 2 * place, begin + 2 * place + 1), (at, at + lasts))
                at += lasts
            made.step(number, begin, at)
        return finding("F4", made.facts(tmp_path)).impact_ns or 0.0

    assert gained(FOREACH, FOREACH.replace("Lerp", "Add"), FOREACH.replace("Lerp", "Div")) == pytest.approx(
        500_000, rel=0.05
    )
    assert gained(FOREACH, FOREACH, FOREACH) == pytest.approx(1_000_000, rel=0.05)


def test_f4_on_recordings(recording: Callable[[str], Trace]) -> None:
    """SGD of 2021: three kernels for each of ResNet-50's 161 parameter tensors."""
    found = finding("F4", facts_of(recording(RESNET)))
    assert (_value(found, "kernels per call"), _value(found, "parameter tensors")) == (483, 161)
    adamw = finding("F4", facts_of(recording(DEIT)))  # AdamW of today: 22 kernels for all of them
    assert _value(adamw, "kernels per call") == 22
    assert "foreach" in adamw.formula
    # all of it is 10.3 %; the operation that takes longest stays, since a fused kernel reads and writes as much
    assert adamw.ceiling_percent == pytest.approx(10.15, abs=0.05)
    plain = finding("F4", facts_of(recording(GPT)))  # as much of its step as the profiler's stacks made of it
    assert (_value(plain, "kernels per call"), plain.severity) == (20, "warning")


# --- F6: attention


@pytest.mark.parametrize(("name", "chains"), [(GPT, 24), (GPT_NSYS, 36)])
def test_f6_counts_chains(recording: Callable[[str], Trace], name: str, chains: int) -> None:
    """12 layers: 2 of 4 forward passes in the steps, 3 in those of nsys."""
    facts = facts_of(recording(name))
    assert kernel_kinds.attention(facts).chains == chains
    found = finding("F6", facts)
    assert "scaled_dot_product_attention(" in found.advice
    assert "memory-efficient" in found.advice


def test_f6_stakes_all_that_a_fused_kernel_stands_in_for(tmp_path: Path) -> None:
    made = _busy((HGEMM, 100), (ADD, 30), (SOFTMAX, 50), (ADD, 20), (HGEMM, 100))
    found = finding("F6", made.facts(tmp_path))
    assert _value(found, "between the GEMMs") == 100_000
    assert _value(found, "their GEMMs") == 200_000
    assert found.impact_ns == 300_000


def test_f6_stakes_the_copy_that_lays_out_the_result(tmp_path: Path) -> None:
    moved = (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel>"
    )
    chain = ((HGEMM, 100), (SOFTMAX, 50), (HGEMM, 100))
    assert finding("F6", _busy(*chain, (moved, 40), (moved, 30)).facts(tmp_path)).impact_ns == 290_000
    assert finding("F6", _busy(*chain, (ADD, 40), (moved, 30)).facts(tmp_path)).impact_ns == 250_000


@pytest.mark.parametrize(
    "made",
    [
        _busy((HGEMM, 100), (LOG_SOFTMAX, 50), (ADD, 9), (HGEMM, 100)),
        _busy((HGEMM, 100), (SOFTMAX, 50), (LOG_SOFTMAX.replace("softmax_warp", "nll_loss"), 5), (HGEMM, 100)),
        _busy((SOFTMAX, 50), (ADD, 50)),
        _busy((HGEMM, 100), *[(ADD, 5)] * 8, (SOFTMAX, 50), (HGEMM, 100)),
    ],
    ids=["loss", "other work between", "no GEMM", "too far"],
)
def test_f6_is_silent(made: Made, tmp_path: Path) -> None:
    assert silent("F6", made.facts(tmp_path))


@pytest.mark.parametrize("name", [DEIT, VIM, RESNET])
def test_f6_is_silent_about_fused_attention(recording: Callable[[str], Trace], name: str) -> None:
    assert silent("F6", facts_of(recording(name)))


def test_f6_asks_why_the_math_backend_was_taken(tmp_path: Path) -> None:
    made = _busy((HGEMM, 100), (SOFTMAX, 50), (HGEMM, 100))
    made.host("cpu_op", "aten::_scaled_dot_product_attention_math", 0, 3)
    assert "sdpa_kernel" in finding("F6", made.facts(tmp_path)).advice


# --- F7: work that moves more than it computes


def test_f7_adds_up_elementwise_norms_and_copies(recording: Callable[[str], Trace]) -> None:
    found = finding("F7", facts_of(recording(DEIT)))
    assert "45.3 %" in found.title  # 20.28 + 14.17 + 10.84
    assert "softmax" not in found.title
    assert "torch.compile" in found.advice


def test_f7_counts_sums_between_its_chains(tmp_path: Path) -> None:
    """A norm of separate operations computes its mean between them; the sum of a gradient of weights does not count."""
    between = finding("F7", _busy((HGEMM, 400), (ADD, 200), (SUM, 100), (ADD, 200), (SUM, 100)).facts(tmp_path))
    assert between.impact_ns == 100_000
    assert "elementwise" in between.title


def test_f7_tells_softmax_from_the_rest(tmp_path: Path) -> None:
    found = finding("F7", _busy((HGEMM, 700), (SOFTMAX, 150), (ADD, 150)).facts(tmp_path))
    assert found.title == "Fuse softmax: 15.0 % of kernel time"
    assert found.impact_ns == 150_000
    both = finding("F7", _busy((HGEMM, 500), (SOFTMAX, 150), (ADD, 200), (ADD, 150)).facts(tmp_path))
    assert both.impact_ns == 300_000  # the longer of the two additions stays


@pytest.mark.parametrize("name", [VIM, GPT_NSYS])
def test_f7_is_silent(recording: Callable[[str], Trace], name: str) -> None:
    assert silent("F7", facts_of(recording(name)))


def _passes(count: int, *kernels: str) -> Made:
    """A step of one loop: these kernels, 10 µs each, so many times; launched ahead."""
    made = Made()
    for step in range(4):
        begin = 10_000 * step
        made.step(step, begin, begin + 9_999)
        for number in range(count * len(kernels)):
            at, runs = begin + 1 + number, begin + 20 + 10 * number
            made.launch(kernels[number % len(kernels)], (at, at + 1), (runs, runs + 10))
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + 2000, begin + 9_990)
    return made


ROLL = "void at::native::(anonymous namespace)::roll_cuda_kernel<float>(float const*, float*, long, long, long)"


def test_f7_keeps_one_kernel_for_each_pass_of_a_stencil(tmp_path: Path) -> None:
    # rolls and sums alternate within a pass: the pass is the loop, not these pairs
    facts = _passes(40, ROLL, ROLL, ADD, ROLL, ADD, ROLL, ADD, ADD).facts(tmp_path)
    found = finding("F7", facts)
    moves = kernel_kinds.of_category(facts.launches, "copy")
    chosen = fusion.but_the_longest(facts.launches, np.ones_like(moves), moves, np.zeros_like(moves))
    assert facts.launches.height - int(chosen.sum()) == 4 * 40
    assert found.ceiling_percent is not None
    assert found.ceiling_percent < 100 * 7 / 8 + 1


def test_a_loop_that_moves_nothing_can_be_one_kernel(tmp_path: Path) -> None:
    launched = _passes(40, ADD, TO_HALF).facts(tmp_path).launches
    nothing, all_of_it = np.zeros(launched.height, np.bool_), np.ones(launched.height, np.bool_)
    assert launched.height - int(fusion.but_the_longest(launched, all_of_it, nothing, nothing).sum()) == 1


# --- F11: layout


def test_f11_tells_rolls_from_flips(tmp_path: Path) -> None:
    found = finding("F11", _busy((HGEMM, 900), (ROLL, 100)).facts(tmp_path))
    assert "most by roll: " in found.title
    assert "by index" in found.advice


def test_f11_names_what_moves_most(tmp_path: Path) -> None:
    found = finding("F11", _busy((HGEMM, 900), (FLIP, 100)).facts(tmp_path))
    assert found.impact_ns == 100_000
    assert "most by flip" in found.title
    assert "torch.flip" in found.advice


def test_f11_on_recordings(recording: Callable[[str], Trace]) -> None:
    """The published profile of vim_tiny has 5.4 % in flips of its 24 layers, two each; the report missed it."""
    found = finding("F11", facts_of(recording(VIM)))
    assert _value(found, "flip, 48 launches per step") == pytest.approx(123_529)
    assert silent("F11", facts_of(recording(GPT_NSYS)))
    assert silent("F11", facts_of(recording(RESNET)))


# --- F12: casts


def test_f12_counts_casts_by_recorded_types(recording: Callable[[str], Trace]) -> None:
    """fp16 autocast makes vim_tiny slower: 202 launches per step do nothing but convert."""
    facts = facts_of(recording(HALF))
    found = finding("F12", facts)
    assert "202 launches per step" in found.title
    assert found.impact_ns is not None
    assert found.impact_ns > 10_000_000
    assert "no_grad" in found.advice


def test_f12_counts_casts_by_name_without_types(tmp_path: Path) -> None:
    found = finding("F12", _busy((HGEMM, 900), (TO_HALF, 100)).facts(tmp_path))
    assert found.impact_ns == 100_000


def test_f12_believes_types_rather_than_names(tmp_path: Path) -> None:
    """A copy of fp16 to fp16 is none, whatever its kernel is called."""
    made = _busy((HGEMM, 900), (TO_HALF, 100))
    for begin in (0, 1000):
        types = ["c10::Half", "c10::Half", "Scalar"]
        made.host("cpu_op", "aten::copy_", begin + 1, begin + 2.5, **{"Input type": types})
    assert silent("F12", made.facts(tmp_path))


@pytest.mark.parametrize("name", [VIM, GPT_NSYS, RESNET])
def test_f12_is_silent(recording: Callable[[str], Trace], name: str) -> None:
    assert silent("F12", facts_of(recording(name)))


def test_orin_has_its_own_ratio(tmp_path: Path) -> None:
    found = finding("F1", _busy((SGEMM, 800), (HGEMM, 200), device=ORIN).facts(tmp_path))
    assert _value(found, "fp16 peak by fp32 peak") == pytest.approx(8.0)
    assert _value(found, "TF32 peak by fp32 peak") == pytest.approx(4.0)


def test_f12_does_not_blame_autocast_for_what_miopen_converts(tmp_path: Path) -> None:
    by_miopen = "SubTensorOpWithCastTensor1d.kd"
    found = finding("F12", _busy((HGEMM, 900), (by_miopen, 100)).facts(tmp_path))
    assert "MIOPEN_FIND_ENFORCE" in found.advice
    assert "autocast" not in found.advice
    mixed = finding("F12", _busy((HGEMM, 800), (TO_HALF, 100), (by_miopen, 20)).facts(tmp_path))
    assert "MIOpen" not in mixed.advice


def test_what_runs_side_by_side_does_not_promise_more_than_there_is(tmp_path: Path) -> None:
    """Two streams convert types at the same time: 900 µs of the step, not 1800."""
    made = Made()
    for number in range(3):
        at = number * 1000
        made.step(number, at, at + 1000)
        for stream in (7, 9):
            made.launch(TO_HALF, (at + stream, at + stream + 1), (at + 50, at + 950), stream=stream)
        made.launch(HGEMM, (at + 20, at + 21), (at + 950, at + 990))
        made.host("cuda_runtime", "cudaDeviceSynchronize", at + 25, at + 992)
    facts = made.facts(tmp_path)
    found = finding("F12", facts)
    assert "900.0 µs of GPU time per step" in found.formula
    assert (found.impact_ns or 0) <= 1_000_000
