"""Advice in the language of the program: which framework a recording is of, and what rules say then."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judged import abstains, fires
from made_run import ADD, HGEMM, SGEMM, SOFTMAX, Made, facts_of, finding, look, silent
from nsys_file import NsysFile
from sample_runs import recorded

from tracetui.analysis.findings.core.facts import Facts
from tracetui.parsers import Trace, TraceError, open_path

OPENMP = "__omp_offloading_10302_1234_main_l42"
STENCIL = "void stencil<float>(float*, float const*, int)"
SCALE = "void scale_add(float*, float const*, int)"
TORCH_WORDS = ("torch", "DataLoader", "autocast", "channels_last", "foreach=", "num_workers", "pin_memory")


def _native(folder: Path, kernels: list[tuple[str, int]], *, python: bool = False) -> Facts:
    """A program under nsys: these kernels (name, ns) one after the other, launched in time, with a wait at the end."""
    file = NsysFile()
    at = 10_000
    for number, (name, lasts) in enumerate(kernels):
        file.launch(name, (number * 1000, number * 1000 + 900), (at, at + lasts))
        at += lasts
    file.call("cudaDeviceSynchronize_v3020", len(kernels) * 1000, at)
    if python:
        file.row("PROCESSES", globalPid=1 << 48 | 100 << 24, pid=100, name="/usr/bin/python3.12")
    return facts_of(open_path(file.write(folder / f"{len(kernels)}{kernels[0][0][:5]}.sqlite"), cache=False).traces[0])


def _in_c(text: str) -> bool:
    return bool(text) and not any(word in text for word in TORCH_WORDS)


# --- which framework


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("chrome/cudagraph_replay.trace.json.gz", "pytorch"),
        ("nsys/vim_tiny_fp32_bs4.sqlite.gz", "pytorch"),
        ("ncu/vim_full_raw.csv.gz", "pytorch"),
        ("ops/ops.sqlite.gz", "pytorch"),
        ("jax/h200.trace.json.gz", "jax"),
        ("nsys/graph_whole.sqlite.gz", "unknown"),
        ("public/tl_mi210_gpuonly.json.gz", "pytorch"),
        ("public/aiu_allreduce_tp4.json.gz", "unknown"),
    ],
)
def test_the_framework_is_known_from_the_evidence(recording: Callable[[str], Trace], name: str, framework: str) -> None:
    told = facts_of(recording(name)).program
    assert told.framework == framework
    assert bool(told.seen_by) == (framework != "unknown")


def test_a_program_with_kernels_of_its_own_is_native(tmp_path: Path) -> None:
    assert _native(tmp_path, [(STENCIL, 50_000)]).program.framework == "native"
    assert _native(tmp_path, [(OPENMP, 50_000)]).program.seen_by == OPENMP


def test_a_python_process_or_only_library_kernels_tell_nothing(tmp_path: Path) -> None:
    assert _native(tmp_path, [(STENCIL, 50_000)], python=True).program.framework == "unknown"
    assert _native(tmp_path, [(SGEMM, 50_000), (HGEMM, 5_000)]).program.framework == "unknown"


def test_xla_under_nsys_is_jax(tmp_path: Path) -> None:
    file = NsysFile()
    file.launch("loop_add_fusion", (0, 900), (1000, 9000))
    path = file.write(tmp_path / "a.sqlite")
    assert facts_of(open_path(path, cache=False).traces[0]).program.framework == "jax"


@pytest.mark.parametrize("rule", ["S5", "S6", "K2", "K13", "G1", "G5"])
def test_nobody_is_asked_for_what_only_torch_can_record(tmp_path: Path, rule: str) -> None:
    asked = abstains(rule, _native(tmp_path, [(STENCIL, 50_000)]))
    assert not any(word in asked for word in ("DataLoader", "record_shapes", "profile_memory", "with_stack"))
    unknown = abstains(rule, _native(tmp_path, [(STENCIL, 50_000), (SCALE, 1000)], python=True))
    assert any(word in unknown for word in ("DataLoader", "record_shapes", "profile_memory"))


# --- S8: pinned memory


def _pageable(folder: Path) -> Facts:
    file = NsysFile()
    file.row("ENUM_CUDA_MEM_KIND", id=0, name="CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", label="Pageable")
    file.row("ENUM_CUDA_MEM_KIND", id=2, name="CUDA_MEMOPR_MEMORY_KIND_DEVICE", label="Device")
    at = 0
    for _ in range(4):
        number = file.call("cudaMemcpyAsync_v3020", at, at + 90_000)
        file.memcpy(at + 10_000, at + 90_000, source=0, target=2, bytes=1 << 20, correlation=number)
        file.launch(OPENMP, (at + 90_000, at + 91_000), (at + 92_000, at + 110_000))
        at += 112_000
    return facts_of(open_path(file.write(folder / "a.sqlite"), cache=False).traces[0])


def test_s8_names_no_data_loader_to_an_openmp_program(tmp_path: Path) -> None:
    found = fires("S8", _pageable(tmp_path))
    assert "omp_atk_pinned" in found.advice
    assert "cudaHostAlloc" in found.advice
    assert _in_c(found.advice)


# --- F1, F7: precision and fusion


def test_f1_names_cublas_to_a_program_that_is_not_torch(tmp_path: Path) -> None:
    file = NsysFile()
    file.row("TARGET_INFO_GPU", vmId=1, id=0, name="NVIDIA H200", smCount=132, computeMajor=9, computeMinor=0)
    file.row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=100)
    file.launch(SGEMM, (0, 900), (1000, 91_000))
    file.launch(STENCIL, (900, 1800), (91_000, 100_000))
    file.call("cudaDeviceSynchronize_v3020", 1800, 100_000)
    found = fires("F1", facts_of(open_path(file.write(tmp_path / "a.sqlite"), cache=False).traces[0]))
    assert "CUBLAS_TF32_TENSOR_OP_MATH" in found.advice
    assert _in_c(found.advice)


def test_f7_is_a_remark_about_a_c_program_and_names_no_compiler(tmp_path: Path) -> None:
    found = fires("F7", _native(tmp_path, [(SCALE, 40_000), (SCALE, 40_000), (STENCIL, 20_000)]))
    assert found.severity == "info"
    assert found.ceiling_percent is not None
    assert found.ceiling_percent > 30
    assert _in_c(found.advice)


# --- F7: compiled graphs, and what a fused kernel still costs

FUSED = "triton_poi_fused__to_copy_add_mul_{0}"


def _steps(*kernels: tuple[str, float]) -> Made:
    """Two steps of these kernels (name, µs), launched in time, and waited for."""
    made, at = Made(), 0.0
    for number in range(2):
        begin = at
        made.host("cuda_runtime", "cudaDeviceSynchronize", begin + len(kernels), begin + sum(k[1] for k in kernels))
        for place, (name, lasts) in enumerate(kernels):
            made.launch(name, (begin + place, begin + place + 1), (at, at + lasts))
            at += lasts
        made.step(number, begin, at)
    return made


def test_f7_does_not_count_what_a_compiler_has_fused(tmp_path: Path) -> None:
    """106 fused kernels a step between GEMMs, as torch.compile makes them: nothing is left to fuse."""
    fused = [(FUSED.format(number), 40.0) for number in range(106)]
    kernels = [kernel for one in fused for kernel in (one, (HGEMM, 20.0))]
    facts = _steps(*kernels).facts(tmp_path)
    assert silent("F7", facts)
    eager = _steps(*[(ADD if "fused" in name else name, lasts) for name, lasts in (*kernels, *fused)])
    assert finding("F7", eager.facts(tmp_path)).severity == "critical"


def test_f7_says_what_is_fused_already_beside_what_is_not(tmp_path: Path) -> None:
    found = finding("F7", _steps((HGEMM, 300), (ADD, 300), (ADD, 200), (FUSED.format(0), 200)).facts(tmp_path))
    assert found.title == "Fuse elementwise work, norms, copies: 50.0 % of kernel time"
    assert found.impact_ns == 200_000
    assert {e.label: e.value for e in found.evidence}["fused by a compiler, not counted, per step"] == 200_000
    assert "It is compiled" in found.advice
    assert not found.next_command


# --- F4: a foreach optimizer without operators

MULTI = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::TensorListMetadata<2>, at::native::(anonymous namespace)::TernaryOpScalarFunctor<float, 2, 2, 0>,"
    " at::native::LerpFunctor<float>, float>(int)"
)


def _optimizer(kernel: str, count: int) -> Made:
    made = Made()
    for number in range(2):
        begin = number * 4000.0
        made.step(number, begin, begin + 4000)
        made.host("user_annotation", "optimizer_step", begin, begin + 2000)
        for place in range(count):
            at = begin + place * 10
            made.launch(kernel, (at, at + 5), (at + 6, at + 10))
    return made


def test_f4_does_not_call_foreach_one_by_one(tmp_path: Path) -> None:
    found = finding("F4", _optimizer(MULTI, 128).facts(tmp_path))
    assert "128 kernels per call" in found.title
    assert found.formula.startswith("one operation at a time (foreach)")
    loop = finding("F4", _optimizer(ADD, 128).facts(tmp_path))
    assert loop.formula.startswith("one parameter at a time")


# --- F6: products that belong to two chains are no attention


def test_f6_takes_no_softmax_between_layers_for_attention(tmp_path: Path) -> None:
    """x = softmax(x @ w), repeated: the product after one softmax is the product before the next."""
    repeated = _steps(*[kernel for _ in range(6) for kernel in ((HGEMM, 100.0), (SOFTMAX, 50.0))], (HGEMM, 100.0))
    assert silent("F6", repeated.facts(tmp_path))
    attention = [(HGEMM, 100.0), (SOFTMAX, 50.0), (HGEMM, 100.0), (HGEMM, 100.0)]
    found = finding("F6", _steps(*attention).facts(tmp_path))
    assert "1 chain per step" in found.title
    assert found.impact_ns == 250_000
    assert "need_weights" not in found.advice
    asked = _steps(*attention)
    asked.host("python_function", "nn.Module: MultiheadAttention_0", 0, 1e6)
    assert "need_weights=False" in finding("F6", asked.facts(tmp_path)).advice


def test_f6_is_silent_about_an_executable_of_products_and_softmax(recording: Callable[[str], Trace]) -> None:
    """Six products and six softmaxes: an attention has two products to each."""
    said = look("F6", facts_of(recording("jax/h200.trace.json.gz")))
    assert not said.found
    assert not said.suppressed


# --- V9, V15, V16: what the file itself says


def _with_counters(folder: Path) -> Facts:
    made = Made()
    for number in range(3):
        made.host("cuda_runtime", "cudaLaunchKernel", number * 10, number * 10 + 5, correlation=number)
        made.host("cuda_profiler_range", "kernel", number * 10, number * 10 + 9)
    return made.facts(folder)


def test_v9_says_that_counters_were_recorded_in_place_of_kernels(tmp_path: Path) -> None:
    found = fires("V9", _with_counters(tmp_path))
    assert "counters in place of kernels" in found.title
    assert "profiler_metrics" in found.advice
    assert "root" not in found.advice
    assert not found.next_command
    without = Made()
    without.host("cuda_runtime", "cudaLaunchKernel", 0, 5, correlation=1)
    assert "no kernel was recorded" in fires("V9", without.facts(tmp_path)).title


def test_v9_on_a_recording_of_counters() -> None:
    found = fires("V9", facts_of(open_path(recorded("public/hta_cupti.json.gz")).main))
    assert "counters in place of kernels" in found.title
    assert "root" not in found.advice


def test_other_json_is_no_trace_and_v16_does_not_call_it_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "memory_timeline.json"
    for other in ([[-1, 1, 512, 7], [-1, 1, 1024, 7]], [1, 2, 3], [{"a": 1}, {"b": [2]}], [], {"a": []}, ["ph"]):
        path.write_text(json.dumps(other))
        with pytest.raises(TraceError, match="not a trace"):
            open_path(path, cache=False)
    whole = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    path.write_text(json.dumps([whole, {"a": 1}]))
    assert silent("V16", facts_of(open_path(path, cache=False).main))
    path.write_text(path.read_text()[:-3])
    assert "closing bracket" in fires("V16", facts_of(open_path(path, cache=False).main)).title


def _with_header(folder: Path, **header: Any) -> Facts:
    made = Made()
    made.step(0, 0, 100)
    made.launch(HGEMM, (0, 1), (1, 99))
    path = folder / "a.json"
    path.write_text(json.dumps({"deviceProperties": [made.device], **header, "traceEvents": made.events}))
    return facts_of(open_path(path, cache=False).main)


@pytest.mark.parametrize("rule", ["V15", "K2", "K13"])
def test_shapes_are_not_asked_for_where_they_were_recorded(tmp_path: Path, rule: str) -> None:
    assert "record with record_shapes=True" in abstains(rule, _with_header(tmp_path))
    asked = abstains(rule, _with_header(tmp_path, record_shapes=1))
    assert "record_shapes=True" not in asked
    assert "shapes" in asked
