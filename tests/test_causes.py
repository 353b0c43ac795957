"""Causes that have a name: modes, repetition by hooks and passes, what attention is given, what long steps do."""

import gc
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from fake_torch import FakeTorch
from judged import found_in
from made_run import ADD, HGEMM, SGEMM, Made, facts_of, finding, look, silent
from msgspec.structs import replace as replaced
from sample_runs import CAUSES, run_of

from tracetui.analysis.attribution.place import launching_rows
from tracetui.analysis.dependencies.limit import limit
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.core.where import of_finding
from tracetui.analysis.findings.host import rare_steps
from tracetui.analysis.gpu.sampled_steps import what_takes_longer
from tracetui.analysis.gpu.step_kinds import page_kinds
from tracetui.analysis.report.findings import finding_row
from tracetui.analysis.sampled_calls import lines
from tracetui.analysis.scope import Scope
from tracetui.analysis.selection import select
from tracetui.app.reports.finding_words import places as printed
from tracetui.collectors.child import machine_torch
from tracetui.collectors.child.marks import Marks, Pauses
from tracetui.parsers import open_path
from tracetui.parsers.runs import samples
from tracetui.parsers.runs.manifest import (
    Compiled,
    CompiledPlace,
    InVain,
    Measurement,
    Modes,
    OperatorCalls,
    RunManifest,
    Spare,
    Unchanged,
    Unheld,
    Workload,
)
from tracetui.parsers.runs.samples import Frame, Samples, Stack, Stay, Thread


def test_modes_are_a_fixed_list_of_switches_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeTorch(monkeypatch)
    for name, value in (
        ("CUDA_LAUNCH_BLOCKING", "1"), ("TORCH_SHOW_CPP_STACKTRACES", "off"), ("CUDA_DEVICE_MAX_CONNECTIONS", "8"),
        ("TORCH_DISTRIBUTED_DEBUG", "detail"), ("NCCL_P2P_DISABLE", "s3cret"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        found = machine_torch.modes()
    finally:
        sys.setprofile(before)
    assert tuple(found) == Modes.__struct_fields__
    assert (found["launch_blocking"], found["cpp_stacktraces"], found["max_connections"]) == (True, False, 8)
    assert (found["distributed_debug"], found["nccl_p2p_disabled"], found["python_profile"]) == (True, True, True)
    assert found["anomaly"] is None, "this torch can't say"
    assert found["gc_thresholds"] == list(gc.get_threshold())


def test_the_collector_s_pauses_belong_to_steps() -> None:
    marks, pauses = Marks("cpu"), Pauses()
    gc.collect()
    pauses.begin()
    marks.add()
    gc.collect()
    marks.add()
    time.sleep(1e-3)
    marks.add()
    pauses.end()
    gc.collect()
    first, second = marks.spent_ns(pauses)
    assert 0 < first <= marks.host_ns()[0]
    assert second == 0
    assert len(pauses.spans) == 1


RECORDED = (
    ("gqa_mask", "F22", ("12 copies that repeat heads, 6 explicit masks", "gqa_mask.py(18): forward")),
    ("table", "F23", ("4,096 of 2,000,000 rows", "table.py(14): forward")),
    ("validate_9", "S28", ("validate.py: evaluate, at validate.py:35",)),
    ("topp_decode", "S32", ("anew for each new shape", "topp_decode.py(11): forward, line 15")),
    (
        "embed_server",
        "S40",
        ("Let 4 threads work at once: a lock at codec.py:36, decode", "gallery/codec.py(30): decode"),
    ),
    ("rl_buffer", "S13", ("12 pauses", "rl_buffer.py(12): sample, line 18")),
)
"""Recordings of programs with a planted fault: finding, and what it must say."""


@pytest.mark.parametrize(("name", "rule", "said"), RECORDED, ids=[name for name, *_ in RECORDED])
def test_a_recorded_fault_is_named_first_with_its_place(name: str, rule: str, said: tuple[str, ...]) -> None:
    mine = found_in(CAUSES / name).found[0]
    assert mine.id == rule
    text = "\n".join([mine.title, *printed(finding_row(mine))])
    assert all(part in text for part in said), text


AMONG_THREE = (
    ("simclr", "F25", ("Do less indexing in simclr.py(59): logits: 56.1 %", "backward of simclr.py(59): logits")),
    (
        "landcover",
        "F25",
        (
            "Do less resampling in segm/heads.py(30): enlarge: 36.0 %",
            "line 31, in LandCover/PixelHead, aten::upsample_",
        ),
    ),
    ("seqrec", "S39", ("Popularity.draw, negatives.py:18: 62.3 %", "negatives.py(15): draw, line 18, 8.089 ms")),
    ("field", "K16", ("Compute in fp32", "field.py(24): forward")),
    ("ranker", "F23", ("1,064,960 of 10,000,000 rows", "backward of model.py(24): forward", "EmbeddingBagBackward0")),
    ("segmentation", "S34", ("segmentation.py(44): update", "segmentation.py(49): confusion, line 55")),
    ("metric_learning", "F24", ("1,536 × 1,536 × 512", "metric_learning.py(36): pairwise_sq_distances")),
    ("tabular", "S28", ("Do it less often, or beside the steps: ", "rows_forever, at tabular.py:77")),
    ("batches", "S39", ("Do less in Reader.take, batches.py:15: 68.2 %", "batches.py(11): take, line 15, 32.91 ms")),
    ("knn", "S35", ("Compute once knn.py:11, neighbours", "knn.py(11): neighbours, in Net, aten::topk")),
    (
        "churn",
        "S34",
        ("Do churn.py(51): after_step less often", "churn.py(33): forward, line 34, in Net/Sequential/Linear"),
    ),
    (
        "watchdog",
        "S33",
        ("for 100.0 % of the steps: watchdog.py(11): run", "watchdog.py(12): check, 27.00 ms of the host"),
    ),
    ("gnn_full", "S35", ("gnn_full.py:19, symmetric_norm", "line 23, in GNN/GraphConv, 3 × aten::_unique2")),
)


@pytest.mark.parametrize(("name", "rule", "said"), AMONG_THREE, ids=[name for name, *_ in AMONG_THREE])
def test_a_recorded_fault_is_named_with_its_place_among_three(name: str, rule: str, said: tuple[str, ...]) -> None:
    (mine,) = (each for each in found_in(CAUSES / name).found[:3] if each.id == rule)
    text = "\n".join([mine.title, *printed(finding_row(mine))])
    assert all(part in text for part in said), text


def test_a_run_without_gpu_work_names_its_loops_and_no_network(tmp_path: Path) -> None:
    made = Made()
    for step in range(3):
        at = step * 1000.0
        made.step(step, at, at + 1000)
        made.host("python_function", "train.py(10): step", at, at + 990)
        made.host("python_function", "loss.py(4): pairs", at + 100, at + 700)
        for call in range(20):
            made.host("cpu_op", "aten::relu", at + 110 + 25 * call, at + 130 + 25 * call)
    facts = made.facts(tmp_path)
    found = finding("S29", facts)
    assert "loss.py(4): pairs does one by one: 20 × aten::relu" in found.title
    assert found.impact_ns == 19 * 20_000
    assert [place.frame for place in of_finding(facts, found)] == ["loss.py(4): pairs"]
    # where calls might have launched work, its absence is a lack of the recording
    made.host("cuda_runtime", "cudaLaunchKernel", 2990, 2995)
    assert silent("S29", made.facts(tmp_path))


def test_what_moves_data_is_not_also_told_to_do_so_faster() -> None:
    findings = found_in(CAUSES / "tabular")
    (mine,) = (each for each in findings.suppressed if each.by == "F11")
    assert mine.finding.id == "K2"


def test_what_a_step_draws_on_the_cpu_is_told_with_its_line() -> None:
    (mine,) = (each for each in found_in(CAUSES / "ddpm").found if each.id == "S31")
    text = "\n".join([mine.title, *printed(finding_row(mine))])
    assert "what aten::randn does on the CPU" in text
    assert "ddpm.py(58): draw_noise, line 61" in text


def test_sampled_steps_that_sampling_made_longer_are_no_clean_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = run_of("causes/tabular").main
    assert page_kinds(select(trace)).steps == 10 + 99
    slower = replaced(samples.of_trace(trace)[0], step_ns=[2 * ns for ns in samples.of_trace(trace)[0].step_ns])
    monkeypatch.setattr(samples, "of_trace", lambda _: (slower, None))
    assert page_kinds.__wrapped__(select(trace)).steps == 10


def test_a_kernel_whose_roof_is_not_known_promises_nothing() -> None:
    (mine,) = (each for each in found_in(CAUSES / "propagate").found if each.id.startswith(("K", "F", "S")))
    assert (mine.id, mine.impact_ns, mine.severity) == ("K12", None, "info")


def test_a_compiled_program_that_keeps_the_gpu_busy_gets_no_advice() -> None:
    assert {each.id for each in found_in(CAUSES / "gpt").found} <= {"T1", "T2", "V7", "V8"}


@pytest.mark.parametrize("name", ["anomaly", "gqa_mask"])
def test_nothing_is_invented_in_mended_programs(name: str) -> None:
    found = found_in(CAUSES / f"{name}_mended").found
    assert not {each.id for each in found} & {"S28", "S29", "S30", "S31", "S32", "S33", "F21", "F22", "F23"}


def _manifest(steps: tuple[int, ...] = (), pauses: tuple[int, ...] = (), **modes: bool) -> RunManifest:
    workload = Workload(deterministic=modes.pop("deterministic", None), modes=Modes(**modes))  # type: ignore[arg-type]
    return RunManifest(workload=workload, measurement=Measurement(clean_step_ns=steps, clean_gc_ns=pauses))


def launching(made: Made, *, blocked: bool, steps: int = 3, kernels: int = 12) -> None:
    """Kernels of 50 µs, each 10 µs of the host after the other."""
    now = busy = 0.0
    for step in range(steps):
        begin = now
        for _ in range(kernels):
            starts = max(now + 8, busy)
            busy = starts + 50
            returns = busy + 2 if blocked else now + 5
            made.launch(HGEMM, (now, returns), (starts, busy))
            now = returns + 10
        made.launch(SGEMM, (now, now + 5), (max(now + 8, busy), max(now + 8, busy) + 5))
        busy = max(now + 8, busy) + 5
        made.host("cuda_runtime", "cudaDeviceSynchronize", now + 6, busy + 3)
        now = busy + 5
        made.step(step, begin, now)


def test_launches_that_last_until_their_kernel_ends_tell_of_the_variable(tmp_path: Path) -> None:
    made = Made()
    launching(made, blocked=True)
    found = finding("S32", made.facts(tmp_path))
    assert "CUDA_LAUNCH_BLOCKING" in found.title
    assert found.first
    # 12 times 10 µs of the host, and what launching takes of the 8 µs to the kernel's begin
    assert found.impact_ns == pytest.approx(12 * 20e3, rel=0.15)
    made = Made()
    launching(made, blocked=False)
    assert silent("S32", made.facts(tmp_path))


def test_a_mode_without_a_trace_of_it_is_named_without_a_gain(tmp_path: Path) -> None:
    made = Made()
    launching(made, blocked=False)
    found = finding("S32", made.facts(tmp_path, _manifest(deterministic=True, memory_history=True)))
    assert found.impact_ns is None
    assert found.severity == "info"
    assert "deterministic algorithms" in found.title
    assert "history of memory" in found.title
    assert silent("S32", made.facts(tmp_path, _manifest(deterministic=False, anomaly=False)))


def test_what_is_compiled_within_recorded_steps_is_told(tmp_path: Path) -> None:
    made = Made()
    launching(made, blocked=False)
    assert silent("S32", made.facts(tmp_path))
    place = CompiledPlace("Tensor.item()", "/home/ann/net.py:9", 8)
    often, once = CompiledPlace("0/0: size of x", "net.py:5", 6), CompiledPlace("0/1: size of y", "net.py:5", 1)
    # a size that came once was compiled before the steps
    few = RunManifest(measurement=Measurement(compiled=Compiled((), (often,))))
    assert silent("S32", made.facts(tmp_path, few))
    compiled = Compiled((place, CompiledPlace("print", None, 1)), (often, once))
    breaks, again = look("S32", made.facts(tmp_path, RunManifest(measurement=Measurement(compiled=compiled)))).found
    assert (breaks.severity, breaks.impact_ns) == ("info", None)
    assert breaks.title == "torch.compile breaks its graphs at 2 places, most at ~/net.py:9"
    assert [(one.label, one.value) for one in breaks.evidence] == [("~/net.py:9: Tensor.item()", 8), ("print", 1)]
    assert again.title == "torch.compile compiled again for 2 places, most at net.py:5"
    made.host("cpu_op", "_compile.compile_inner (dynamo_timed)", 100, 350)
    found = finding("S32", made.facts(tmp_path))
    assert "works 1 time within 3 recorded steps" in found.title
    assert found.evidence[0].value == 250e3


@pytest.mark.parametrize("anomaly", [None, True, False])
def test_the_search_for_nan_in_the_backward_pass_is_anomaly_detection(tmp_path: Path, anomaly: bool | None) -> None:
    made, now = Made(), 0.0
    for step in range(3):
        begin = now
        for _ in range(10):
            made.host("cpu_op", "autograd::engine::evaluate_function: MmBackward0", now, now + 100, thread=2)
            made.host("cpu_op", "MmBackward0", now + 1, now + 20, thread=2)
            made.launch(HGEMM, (now + 5, now + 10), (now + 15, now + 25), thread=2)
            made.host("cpu_op", "aten::isnan", now + 22, now + 40, thread=2)
            made.launch("isnan_kernel", (now + 25, now + 30), (now + 35, now + 37), thread=2)
            made.host("cpu_op", "aten::item", now + 42, now + 90, thread=2)
            made.launch("Memcpy DtoH (Device -> Pageable)", (now + 45, now + 80), (now + 50, now + 52),
                        api="cudaMemcpyAsync", kind="gpu_memcpy", thread=2)  # fmt: skip
            now += 110
        made.step(step, begin, now)
    manifest = None if anomaly is None else _manifest(anomaly=anomaly)
    facts = made.facts(tmp_path, manifest)
    if anomaly is False:
        assert silent("S32", facts), "the process itself says that it is something else"
        return
    found = finding("S32", facts)
    assert "anomaly" in found.title
    assert found.impact_ns == pytest.approx(10 * 66e3, rel=0.1)


def test_the_collector_s_part_of_clean_steps_is_a_finding(tmp_path: Path) -> None:
    made = Made()
    launching(made, blocked=True)
    steps = (1_000_000,) * 8 + (4_000_000,) * 2
    manifest = _manifest(steps, (0,) * 8 + (3_000_000,) * 2, launch_blocking=False)
    facts = facts_of(replace(made.trace(tmp_path), clean_step_ns=steps), manifest)
    found = finding("S32", facts)
    assert found.impact_ns == pytest.approx(600_000)
    assert found.impact_of == "mean_step"
    assert "2 of 10 clean steps" in found.title
    rare = finding("S28", facts)
    assert rare.title == "Collect garbage less often: Python GC"
    assert "gc.freeze()" in rare.advice


def hooked(made: Made, hook: str, *, parent: str = "_call_impl", calls: int = 20) -> None:
    """Modules in a step, each with a function below its call."""
    now = 0.0
    for step in range(3):
        begin = now
        made.host("python_function", "train.py(10): step", now, now + calls * 100 + 20)
        for number in range(calls):
            at = now + 5 + number * 100
            made.host("python_function", f"nn.Module: Linear_{number}", at, at + 90)
            made.host("python_function", f"torch/nn/modules/module.py(1783): {parent}", at + 1, at + 89)
            made.launch(HGEMM, (at + 5, at + 10), (at + 15, at + 20))
            made.host("python_function", hook, at + 30, at + 85)
            made.host("cpu_op", "aten::any", at + 31, at + 60)
            made.launch("reduce_kernel", (at + 35, at + 40), (at + 45, at + 47))
        now += calls * 100 + 20
        made.host("cuda_runtime", "cudaDeviceSynchronize", now, now + 10)
        now += 12
        made.step(step, begin, now)


def test_a_hook_on_many_modules_is_a_repetition(tmp_path: Path) -> None:
    made = Made()
    hooked(made, "train.py(5): check")
    found = finding("S29", made.facts(tmp_path))
    assert "20 × check (train.py)" in found.title
    assert "train.py(10): step" in found.title


@pytest.mark.parametrize(("name", "parent"), [("net.py(5): forward", "_call_impl"), ("net.py(5): act", "forward")])
def test_layers_and_their_parts_are_none(tmp_path: Path, name: str, parent: str) -> None:
    made = Made()
    hooked(made, name, parent=parent)
    assert silent("S29", made.facts(tmp_path))


def looped(made, inner, *, modules="", operator="aten::mul_", calls=20, within="", launches=True) -> None:
    """A function that another one calls again and again, itself or `within` one of a library that it calls."""
    now = 0.0
    for step in range(3):
        begin = now
        made.host("python_function", "train.py(10): step", now, now + calls * 50 + 5)
        if within:
            made.host("python_function", within, now + 1, now + calls * 50 + 4)
        for number in range(calls):
            at = now + 2 + number * 50
            made.host("python_function", inner, at, at + 45)
            if modules:
                made.host("python_function", f"nn.Module: {modules.format(number)}", at + 1, at + 44)
            if launches:
                made.host("cpu_op", operator, at + 2, at + 20)
                made.launch(SGEMM, (at + 5, at + 10), (at + 15, at + 17))
                made.host("cpu_op", "aten::add_", at + 22, at + 40)
                made.launch(SGEMM, (at + 25, at + 30), (at + 35, at + 37))
        now += calls * 50 + 5
        made.launch(SGEMM, (now + 1, now + 2), (now + 3, now + 4))
        made.host("cuda_runtime", "cudaDeviceSynchronize", now, now + 10)
        now += 12
        made.step(step, begin, now)


def test_calls_of_an_own_function_are_a_repetition_and_a_comprehension_is_part_of_its_function(tmp_path: Path) -> None:
    made = Made()
    looped(made, "train.py(3): trust")
    assert "20 × trust (train.py)" in finding("S29", made.facts(tmp_path)).title
    made = Made()
    looped(made, "train.py(12): <genexpr>")
    title = finding("S29", made.facts(tmp_path)).title
    assert "20 × aten::mul_" in title
    assert "20 × aten::add_" in title


@pytest.mark.parametrize(
    ("inner", "launches", "advice"),
    [
        ("data.py(3): __getitem__", False, "It launches nothing"),
        ("data.py(3): __getitem__", True, "Do it for all of them in one call"),
        ("<built-in method item of Tensor object at 0x7f00>", True, "Keep the values in one tensor"),
    ],
)
def test_what_is_advised_for_a_loop_is_by_what_it_calls(tmp_path, inner, launches, advice) -> None:
    made = Made()
    looped(made, inner, launches=launches)
    assert finding("S29", made.facts(tmp_path)).advice.startswith(advice)


@pytest.mark.parametrize(
    ("within", "calls", "repeated"),
    [
        ("torch/nn/utils/parametrizations.py(456): _power_method", 20, True),
        ("torch/nn/utils/parametrizations.py(456): _power_method", 15, False),  # so many may stand there without a loop
        ("torch/optim/adam.py(400): _single_tensor_adam", 20, False),  # is F4's
        ("torch/autograd/graph.py(869): _engine_run_backward", 20, False),  # has the network's length
    ],
)
def test_a_loop_within_a_library_is_the_program_s_that_led_there(tmp_path, within, calls, repeated) -> None:
    made = Made()
    looped(made, "torch/nn/functional.py(5520): normalize", calls=calls, within=within)
    facts = made.facts(tmp_path)
    assert silent("S29", facts) if not repeated else "train.py(10): step does" in (found := finding("S29", facts)).title
    assert not repeated or "20 × normalize (functional.py)" in found.title


def test_one_step_can_not_tell_a_new_shape_from_a_first_one() -> None:
    run = run_of("causes/topp_decode")
    assert "anew for each new shape" in finding("S32", Facts(run)).title
    assert "anew for each new shape" in finding("S32", Facts(run, scope=Scope(steps=(0, 1)))).title
    assert silent("S32", Facts(run, scope=Scope(steps=(1, 1))))


@pytest.mark.parametrize(("layer", "repeated"), [("Block_{}", False), ("Cell_0", True)])
def test_what_comes_between_layers_is_part_of_the_network(tmp_path: Path, layer: str, repeated: bool) -> None:
    made, now = Made(), 0.0
    for step in range(3):
        begin = now
        made.host("python_function", "net.py(10): forward", now, now + 1205)
        for number in range(12):
            at = now + 2 + number * 100
            made.host("python_function", f"nn.Module: {layer.format(number)}", at, at + 20)
            made.launch(SGEMM, (at + 5, at + 10), (at + 15, at + 17))
            made.host("cpu_op", "aten::add", at + 30, at + 95)
            made.launch(SGEMM, (at + 80, at + 85), (at + 90, at + 92))
        now += 1205
        made.host("cuda_runtime", "cudaDeviceSynchronize", now, now + 10)
        now += 12
        made.step(step, begin, now)
    facts = made.facts(tmp_path)
    assert silent("S29", facts) if not repeated else "12 × aten::add" in finding("S29", facts).title


@pytest.mark.parametrize(("modules", "operator"), [("Block_{}", "aten::mul_"), ("", "aten::linear")])
def test_a_stack_of_layers_that_functions_make_is_none(tmp_path: Path, modules: str, operator: str) -> None:
    made = Made()
    looped(made, "train.py(3): block", modules=modules, operator=operator)
    assert silent("S29", made.facts(tmp_path))


def passes(made: Made, number: int, backward: int) -> None:
    now = 0.0
    for step in range(3):
        begin = now
        made.host("python_function", "train.py(10): step", now, now + number * 200)
        for part in range(number):
            at = now + part * 200
            made.host("python_function", "nn.Module: Net_0", at + 1, at + 90)
            made.launch(HGEMM, (at + 5, at + 10), (at + 15, at + 25))
            if part < backward:
                made.host("python_function", "torch/_tensor.py(566): backward", at + 95, at + 190)
                made.launch(HGEMM, (at + 100, at + 105), (at + 110, at + 120))
        now += number * 200
        made.host("cuda_runtime", "cudaDeviceSynchronize", now, now + 10)
        now += 12
        made.step(step, begin, now)


@pytest.mark.parametrize(("number", "backward"), [(4, 4), (3, 3), (4, 0)])
def test_micro_batches_are_passes_with_a_backward_each(tmp_path: Path, number: int, backward: int) -> None:
    made = Made()
    passes(made, number, backward)
    facts = made.facts(tmp_path)
    if (number, backward) != (4, 4):
        assert silent("S29", facts)
        return
    found = finding("S29", facts)
    assert "4 × Net" in found.title
    assert "micro-batches" in found.advice


def attending(copied: str | None, given: list[int], mask: list[int]) -> Made:
    made, now = Made(), 0.0
    for step in range(3):
        begin = now
        for _ in range(4):
            if copied is not None:
                made.host("cpu_op", copied, now, now + 20, **{"Input Dims": [given, []], "Input type": ["", ""]})
                made.launch("copy_kernel", (now + 5, now + 10), (now + 15, now + 115))
            dims = [[2, 32, 128, 64], [2, 32, 128, 64], [2, 32, 128, 64], mask, [], [], []]
            made.host("cpu_op", "aten::scaled_dot_product_attention", now + 120, now + 140,
                      **{"Input Dims": dims, "Input type": [""] * 7})  # fmt: skip
            made.launch("fmha_kernel", (now + 125, now + 130), (now + 135, now + 235))
            now += 240
        made.step(step, begin, now)
    return made


@pytest.mark.parametrize(
    ("copied", "given", "is_repeat"),
    [
        ("aten::repeat_interleave", [2, 8, 128, 64], True),
        ("aten::reshape", [2, 8, 4, 128, 64], True),
        ("aten::contiguous", [2, 32, 128, 64], False),
        ("aten::reshape", [2, 128, 2048], False),
        (None, [], False),
    ],
)
def test_copies_that_repeat_heads_for_attention(tmp_path, copied, given, is_repeat) -> None:
    facts = attending(copied, given, []).facts(tmp_path)
    if not is_repeat:
        assert silent("F22", facts)
        return
    found = finding("F22", facts)
    assert "4 copies that repeat heads" in found.title
    assert "enable_gqa" in found.advice
    assert found.impact_ns is not None
    assert found.impact_ns >= 4 * 100e3


def _sampled(stays: list[tuple[int, tuple[int, ...], int]], host: tuple[int, ...]) -> Samples:
    frames = (Frame("/w/train.py", 40, "main"), Frame("/w/train.py", 12, "evaluate"),
              Frame("/v/site-packages/torch/x.py", 3, "wrapped"), Frame("/w/train.py", 41, "main"))  # fmt: skip
    stacks = tuple(dict.fromkeys(stack for _, stack, _ in stays))
    return Samples(
        rate_hz=500,
        host_ns=host,
        step_ns=host,
        frames=frames,
        stacks=tuple(map(Stack, stacks)),
        threads=(Thread("MainThread", steps=True),),
        stays=tuple(Stay(step, 0, stacks.index(stack), ns) for step, stack, ns in stays),
    )


def test_what_only_long_sampled_steps_do_is_named_with_the_line_that_calls_it() -> None:
    ms = 1_000_000
    host = (10 * ms,) * 9 + (100 * ms,)
    usual = [(step, (0,), 10 * ms) for step in range(9)]
    found = what_takes_longer(_sampled([*usual, (9, (0,), 10 * ms), (9, (3, 2, 1), 90 * ms)], host), {9}, set(range(9)))
    assert found == ("train.py: evaluate, at train.py:41", True)
    of_edge = [*usual, (8, (3, 2, 1), ms), (9, (0,), 10 * ms), (9, (3, 2, 1), 90 * ms)]
    assert what_takes_longer(_sampled(of_edge, host), {9}, set(range(9))) == found
    held = [(step, (3, 2), 10 * ms) for step in range(9)] + [(9, (3, 2), 100 * ms)]
    assert what_takes_longer(_sampled(held, host), {9}, set(range(9))) == ("x.py: wrapped, at train.py:41", False)


@pytest.mark.parametrize(
    "call",
    [
        "<built-in method format of str object>",
        "metrics.py(3): <genexpr>",  # of which there are more than of the launching thread's functions
        "<built-in method acquire of lock object>",
    ],
)
def test_a_thread_that_runs_python_holds_the_others_up(tmp_path: Path, call: str) -> None:
    made = Made()
    looped(made, "train.py(3): block", operator="aten::linear")
    last = max(event["ts"] + event["dur"] for event in made.events)
    made.host("python_function", "threading.py(1002): _bootstrap", 0, last, thread=9)
    made.host("python_function", "metrics.py(7): export", 1, last, thread=9)
    for at in range(10, int(last) - 50, 50):
        made.host("python_function", call, at, at + 48, thread=9)
    facts = made.facts(tmp_path)
    if "acquire" in call:
        assert silent("S33", facts)
        return
    found = finding("S33", facts)
    assert "metrics.py(7): export" in found.title
    assert found.least_ns == 0


def test_threads_that_wait_anywhere_queue_for_no_lock_of_the_program_s(tmp_path: Path) -> None:
    """As they do for the interpreter's: where none stands on one line alone, they are other threads, told once."""
    for file in (CAUSES / "embed_server").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    told = json.loads((tmp_path / "samples.json").read_text())
    lock = next(
        at for at, each in enumerate(told["frames"]) if (each["function"], each["line"]) == ("Decoder.decode", 36)
    )
    told["frames"].append({**told["frames"][lock], "line": 37})
    for stay in told["stays"]:
        frames = told["stacks"][stay["stack"]]["frames"]
        if frames[-1:] == [lock] and stay["thread"] % 2:
            told["stacks"].append({"frames": [*frames[:-1], len(told["frames"]) - 1]})
            stay["stack"] = len(told["stacks"]) - 1
    (tmp_path / "samples.json").write_text(json.dumps(told))
    facts = Facts(open_path(tmp_path, cache=False))
    assert silent("S40", facts)
    assert "4 other threads run Python for" in finding("S33", facts).title


def trained(made: Made, *, of_backward: str = "autograd::engine::evaluate_function: ReluBackward0") -> None:
    """Steps of a forward pass, a metric of the program's own, and the forward pass's gradients on another thread."""
    now = 0.0
    for step in range(3):
        begin = now
        made.host("python_function", "train.py(10): step", now, now + 900)
        for number, (function, names) in enumerate(
            (("model.py(3): forward", ("aten::mm", "aten::relu")), ("metric.py(7): update", ("aten::mm", "aten::sum")))
        ):
            made.host("python_function", function, now + 10 + number * 400, now + 390 + number * 400)
            for place, name in enumerate(names):
                at = now + 20 + number * 400 + place * 100
                made.host("cpu_op", name, at, at + 90, **{"Sequence number": 2 * step if name == "aten::relu" else -1})
                made.launch(SGEMM, (at + 5, at + 10), (at + 15, at + 75))
                if name == "aten::relu":
                    made.flow(2 * step, at, now + 905)
        made.host("python_function", "metric.py(2): total", now + 418, now + 612)
        made.host("cpu_op", of_backward, now + 905, now + 1000, thread=2)
        made.launch(SGEMM, (now + 910, now + 920), (now + 925, now + 990), thread=2)
        made.host("user_annotation", "Optimizer.step#Muon.step", now + 1010, now + 1100)
        made.host("python_function", "muon.py(5): step", now + 1011, now + 1099)
        made.host("cpu_op", "aten::mul_", now + 1015, now + 1090)
        made.launch(SGEMM, (now + 1020, now + 1030), (now + 1035, now + 1200))
        made.host("cuda_runtime", "cudaDeviceSynchronize", now + 1105, now + 1205)
        now += 1210
        made.step(step, begin, now)


@pytest.mark.parametrize(("passes", "differentiated"), [(1, False), (4, False), (4, True)])
def test_a_graph_that_several_backward_passes_go_through_is_told(tmp_path, passes, differentiated) -> None:
    """Only one pass has a flow; a gradient that is differentiated itself needs a pass of its own."""
    made, now = Made(), 0.0
    task = "autograd::engine::evaluate_function: ReluBackward0"
    for step in range(3):
        begin = now
        made.host("python_function", "loss.py(3): both", now, now + 1000)
        for number in range(2):
            at = now + 10 + 50 * number
            made.host("cpu_op", "aten::relu", at, at + 40, **{"Sequence number": 2 * step + number})
            made.launch(ADD, (at + 5, at + 10), (at + 15, at + 35))
            made.flow(10 * step + number, at + 1, now + 205 + 80 * number)
        for one in range(passes):
            made.host(
                "python_function", "torch/_tensor.py(522): backward", now + 195 + 180 * one, now + 370 + 180 * one
            )
            for number in range(2):
                at = now + 200 + 180 * one + 80 * number
                made.host("cpu_op", task, at, at + 70, thread=2, **{"Sequence number": 2 * step + number})
                made.host("cpu_op", "ReluBackward0", at + 1, at + 60, thread=2)
                made.launch(SGEMM, (at + 5, at + 10), (at + 15, at + 60), thread=2)
                if differentiated:
                    second = now + 930 + 5 * (2 * one + number)
                    made.flow(10_000 + 100 * step + 10 * one + number, at + 2, second + 1, thread=3)
                    made.host("cpu_op", "autograd::engine::evaluate_function: Second", second, second + 4, thread=3)
        made.host("cuda_runtime", "cudaDeviceSynchronize", now + 960, now + 1000)
        now += 1010
        made.step(step, begin, now)
    # a flow leads from the innermost operator around it on the thread where it begins
    for event in made.events:
        if event.get("ph") == "s" and event["id"] >= 10_000:
            event["tid"] = 2
    facts = made.facts(tmp_path)
    if passes == 1 or differentiated:
        assert silent("S30", facts)
        return
    found = finding("S30", facts)
    assert "4 backward passes go again" in found.title
    assert [each.value for each in found.evidence] == [3 * 2, 0]
    assert (found.least_ns, [place.frame for place in found.where]) == (0.0, ["loss.py(3): both"])
    assert set(lines(facts.trace, facts.trace.device)) == {"loss.py(3): both", "backward of loss.py(3): both"}


def test_saved_tensors_on_the_cpu_are_told_by_their_hooks(tmp_path: Path) -> None:
    made, now = Made(), 0.0
    for step in range(3):
        begin = now
        for name, direction in (
            ("pack_to_cpu", "DtoH (Device -> Pinned)"),
            ("unpack_from_cpu", "HtoD (Pinned -> Device)"),
        ):
            made.host("python_function", f"torch/autograd/graph.py(391): {name}", now, now + 300)
            made.launch(
                f"Memcpy {direction}",
                (now + 5, now + 290),
                (now + 10, now + 280),
                api="cudaMemcpyAsync",
                kind="gpu_memcpy",
            )
            made.launch(SGEMM, (now + 305, now + 310), (now + 315, now + 400))
            now += 410
        made.host("cuda_runtime", "cudaDeviceSynchronize", now - 90, now)
        made.step(step, begin, now)
    found = finding("S32", made.facts(tmp_path))
    assert "save_on_cpu" in found.title
    assert found.impact_ns > 2 * 250e3


@pytest.mark.parametrize(("given_out", "waits_for"), [(900_000, "gpu"), (1_000_000, "host")])
def test_a_host_that_is_ahead_of_the_clean_steps_is_not_what_they_wait_for(tmp_path, given_out, waits_for) -> None:
    """Kernels with pauses between them, as of a chain; only the host's own clock tells whose they are."""
    made, now = Made(), 0.0
    for step in range(4):
        for number in range(10):
            at = now + 100 * number
            made.host("cpu_op", "aten::mm", at, at + 95)
            made.launch(SGEMM, (at + 80, at + 90), (at + 92, at + 150))
        now += 1000
        made.step(step, now - 1000, now)
    clean = {"clean_step_ns": (1_000_000,) * 10, "clean_host_ns": (700_000, *(given_out,) * 9)}
    facts = facts_of(replace(made.trace(tmp_path), **clean))
    assert facts.model.waits_for == waits_for
    sentence = limit(facts.sel, "steps 0-3", "a step").sentence
    assert ("the host gives a step out in 900.0 µs" in sentence) == (waits_for == "gpu")


def test_what_no_gradient_flows_through_is_told(tmp_path: Path) -> None:
    made = Made()
    trained(made)
    facts = made.facts(tmp_path)
    found = finding("S34", facts)
    assert "metric.py(7): update" in found.title
    assert found.least_ns == 0, "it may be needed"
    assert found.work is not None
    assert found.work.size == 2 * 3
    made = Made()
    trained(made, of_backward="aten::relu")
    made.events = [event for event in made.events if event["ph"] == "X"]  # nothing is learned
    assert silent("S34", made.facts(tmp_path))


def test_backward_work_has_the_forward_s_frame_and_a_kernel_without_a_call_its_operator_s(tmp_path: Path) -> None:
    made = Made()
    trained(made)
    trace = made.trace(tmp_path)
    launching = launching_rows(trace.device)
    threads = trace.host["thread"].gather(launching).to_list()
    assert sorted(set(lines(trace, trace.device))) == [
        "backward of model.py(3): forward", "metric.py(2): total", "model.py(3): forward",
        "muon.py(5): step",
    ]  # fmt: skip
    of_backward = [line for line, thread in zip(lines(trace, trace.device), threads, strict=True) if thread == 2]
    assert of_backward == ["backward of model.py(3): forward"] * 3
    device = pl.DataFrame(
        {"launch": [None, 3], "operator": [5, 2]}, schema=dict.fromkeys(("launch", "operator"), pl.UInt32)
    )
    assert launching_rows(device).tolist() == [5, 3]


def test_what_has_the_same_result_in_each_step_is_told_by_its_operators(tmp_path: Path) -> None:
    made = Made()
    trained(made)
    whole = Unchanged("metric.py", 7, "update", whole=True, operators=(
        OperatorCalls("aten::mm", of=2, calls=(1,)), OperatorCalls("aten::sum", of=1, calls=(0,)),
    ))  # fmt: skip
    measured = Measurement(unchanged=(whole,))
    found = finding("S35", made.facts(tmp_path, RunManifest(measurement=measured)))
    assert "metric.py:7, update" in found.title
    assert found.work is not None
    assert set(facts_of(made.trace(tmp_path)).trace.device["start"].gather(found.work)) == {
        round((step * 1210 + at) * 1e3) for step in range(3) for at in (435, 535)
    }
    calls = tuple(replaced(whole, operators=(one,)) for one in whole.operators)  # one for each call of the function
    each = finding("S35", made.facts(tmp_path, RunManifest(measurement=Measurement(unchanged=calls))))
    assert (each.impact_ns, set(each.work)) == (found.impact_ns, set(found.work))  # type: ignore[arg-type]
    other = replaced(whole, operators=(OperatorCalls("aten::mm", of=3, calls=(1,)), *whole.operators[1:]))
    said = RunManifest(measurement=Measurement(unchanged=(other,)))
    assert silent("S35", made.facts(tmp_path, said)), "the recorded steps have not as many"


@pytest.mark.parametrize(
    ("told", "title", "share"),
    [
        (
            InVain("metric.py", 7, "update", "read", 0.25, "metric.py:9"),
            "25.0 % of it: metric.py:7, update, read in line 9",
            0.75,
        ),
        (
            InVain("metric.py", 7, "update", "masked", 0.25, "other.py:9"),
            "25.0 % of it: metric.py:7, update, masked in other.py:9",
            0.75,
        ),
        (
            InVain("metric.py", 7, "update", "alike", 0.25),
            "Compute equal rows once, 25.0 % of them differ: metric.py:7",
            0.75,
        ),
        (InVain("metric.py", 7, "update", "dropped", 0.0), "Leave out metric.py:7, update", 1.0),
    ],
    ids=lambda value: value.why if isinstance(value, InVain) else "",
)
def test_what_is_used_in_part_is_told_with_the_work_of_the_rest(
    tmp_path: Path, told: InVain, title: str, share: float
) -> None:
    made, now = Made(), 0.0
    for step in range(3):
        now = step_of(made, [("aten::mm", [THIN, THIN[::-1]], []), ("aten::relu", [THICK], [])], now, step)

    def said(told: InVain, of: int = 1, *others: InVain) -> Facts:
        told = replaced(told, operators=(OperatorCalls("aten::mm", of=of, calls=(0,)),))
        return made.facts(tmp_path, RunManifest(measurement=Measurement(in_vain=(told, *others))))

    found = finding("F27", said(told))
    assert title in found.title
    assert found.least_ns == 0
    all_of_it = finding("F27", said(replaced(told, used=0.0))).impact_ns
    assert found.impact_ns == pytest.approx(share * (all_of_it or 0.0), rel=0.05)
    assert silent("F27", said(told, of=2)), "the recorded steps have not as many"
    other = replaced(told, by="metric.py:12", operators=(OperatorCalls("aten::relu", of=1, calls=(0,)),))
    both = finding("F27", said(told, 1, other))  # one place, decided by two
    assert both.work is not None
    assert found.work is not None
    assert set(both.work) > set(found.work)


def test_modules_whose_gradients_no_optimizer_holds_are_told_with_their_backward_pass(tmp_path: Path) -> None:
    made = Made()
    trained(made)
    for step in range(3):
        made.host("python_function", "nn.Module: Encoder_1", step * 1210 + 118, step * 1210 + 214)
    said = RunManifest(measurement=Measurement(unheld=Unheld(8, 4096, ("Encoder",))))
    found = finding("S37", made.facts(tmp_path, said))
    assert "Freeze Encoder: no optimizer holds its 8 parameters" in found.title
    assert found.work is not None
    assert set(facts_of(made.trace(tmp_path)).trace.device["start"].gather(found.work)) == {
        round((step * 1210 + 925) * 1e3) for step in range(3)
    }
    other = RunManifest(measurement=Measurement(unheld=Unheld(8, 4096, ("Decoder",))))
    assert silent("S37", made.facts(tmp_path, other))
    assert silent("S37", made.facts(tmp_path, RunManifest()))


def spent_in_vain(folder: Path, spare: Spare, *dims: list[list[int]]) -> Facts:
    """Steps in which operators with these shapes take 100 µs of the GPU each, as the host is in no hurry."""
    made, now = Made(), 0.0
    for step in range(3):
        begin = now
        for shapes in dims:
            made.host("cpu_op", "aten::mm", now, now + 20, **{"Input Dims": shapes})
            made.launch(SGEMM, (now + 5, now + 10), (now + 15, now + 115))
            now += 116
        made.host("cuda_runtime", "cudaDeviceSynchronize", now - 90, now + 1)
        made.step(step, begin, now + 1)
        now += 1
    return made.facts(folder, RunManifest(measurement=Measurement(spare=(spare,))))


@pytest.mark.parametrize(
    ("spare", "dims", "saved_us", "title"),
    [
        (Spare("x", "Net", (8, 600, 80), 1, 50.0, 70.0, "train.py", 7, "step"),
         ([[8, 80, 600], [64, 80, 5]], [[8, 64, 300]], [[64, 64, 5]]), 100,
         "Pad x to its batch's longest, for train.py:7, step: 50.0 %"),
        (Spare("ids", "Net", (8, 600), 1, 0.0, 70.0, "train.py", 7, "step"),
         ([[4800, 64], [64, 64]], [[8, 64, 300]], [[8, 4, 600, 600]]), 70 + 91,
         "Group ids by length, for train.py:7, step: 70.0 %"),
        (Spare("target", "cross_entropy_loss", (4800, 1000), None, 80.0, 80.0, "loss.py", 4, "loss"),
         ([[4800, 64], [64, 1000]], [[8, 600, 1000]], [[4800, 64], [64, 64]], [[1000, 64]]), 160,
         "Take the rows that have a label before loss.py:4, loss: its loss ignores 80.0 % of the 4,800"),
    ],
)  # fmt: skip
def test_work_on_positions_that_carry_nothing_is_told_with_what_would_be_saved(
    tmp_path: Path, spare: Spare, dims: tuple[list[list[int]], ...], saved_us: float, title: str
) -> None:
    found = finding("S38", spent_in_vain(tmp_path, spare, *dims))
    assert found.title.startswith(title)
    assert found.impact_ns == pytest.approx(1e3 * saved_us, rel=0.02)
    assert found.least_ns == 0, "a length may be meant"
    none = replaced(spare, percent=3.0, mean_percent=3.0)
    assert silent("S38", spent_in_vain(tmp_path, none, *dims))


@pytest.mark.parametrize(
    ("operand", "then", "told"),
    [([64, 1, 32], "sum", True), ([64, 1, 32], "gelu", False), ([64, 64, 32], "sum", False)],
)
def test_a_large_result_of_small_operands_that_is_added_up_is_told(tmp_path, operand, then, told) -> None:
    made, now, pairs = Made(), 0.0, [64, 64, 32]
    for step in range(3):
        begin = now
        for name, dims in (
            ("aten::sub", [operand, [1, 64, 32], []]), (f"aten::{then}", [pairs, []]),
            ("aten::mm", [[512, 1], [1, 512]]),
        ):  # fmt: skip
            made.host("cpu_op", name, now, now + 20, **{"Input Dims": dims})
            made.launch(
                SGEMM if name == "aten::mm" else "vectorized_elementwise_kernel",
                (now + 5, now + 10),
                (now + 15, now + 115),
            )
            now += 120
        made.host("cuda_runtime", "cudaDeviceSynchronize", now, now + 4)
        now += 5
        made.step(step, begin, now)
    facts = made.facts(tmp_path)
    if not told:
        assert silent("F24", facts)
        return
    found = finding("F24", facts)
    assert "64 × 64 × 32 that aten::sub" in found.title
    assert found.work is not None
    assert found.work.size == 2 * 3, "its own kernels, and those that read what it made"
    assert found.least_ns == 0


def step_of(
    made: Made, operators: list[tuple[str, list[list[int]], list[str]]], now: float, step: int, type_: str = "float"
) -> float:
    """Adds a step in which these operators run one after the other, each with a kernel; returns its end."""
    begin, free = now, now + 15
    for name, dims, values in operators:
        told: dict[str, list[list[int]] | list[str]] = {"Input Dims": dims, "Input type": [type_] * len(dims)}
        made.host("cpu_op", name, now, now + 20, **told | ({"Concrete Inputs": values} if values else {}))
        made.launch("some_kernel", (now + 5, now + 10), (free, free + 100))
        now, free = now + 25, free + 100
    made.host("cuda_runtime", "cudaDeviceSynchronize", now, free)
    made.host("python_function", "net.py(3): forward", begin, free + 1)
    made.step(step, begin, free + 5)
    return free + 5


THIN, TALL, THICK = [4096, 64], [4096, 2048], [4096, 4096]


@pytest.mark.parametrize(
    ("operators", "told", "launches"),
    [
        ([("mm", THIN, THIN[::-1]), ("mul", THICK, []), ("mm", THICK, THIN)], "Multiply in the other order: 4,096", 3),
        ([("mm", THIN, THIN[::-1]), ("add", THICK, THICK), ("mm", [512, 4096], THICK)], "one after the other", 2),
        ([("one_hot", [512], []), ("scatter_", [512, 9000], []), ("mm", [512, 9000], [9000, 64])], "Look rows up", 2),
        ([("mm", THIN, THIN[::-1]), ("mv", THICK, [4096])], "Multiply in the other order: 4,096", 2),
        ([("mm", TALL, TALL[::-1]), ("mm", THICK, THICK), ("mm", THICK, TALL)], "Transpose first: powers of 4,096", 3),
        ([("mm", THIN, THIN[::-1]), ("_softmax", THICK, []), ("mm", THICK, THIN)], "", 0),
        ([("mm", THIN, THIN[::-1]), ("mul", THICK, THICK), ("mm", THICK, THIN)], "", 0),
        ([("mm", [4096, 2048], [2048, 4096]), ("mul", THICK, []), ("mm", THICK, THIN)], "", 0),
    ],
    ids=["order", "added", "one-hot", "vector", "powers", "softmax", "mask", "thick factors"],
)
def test_a_large_matrix_that_is_only_multiplied_is_told(tmp_path, operators, told, launches) -> None:
    made, now = Made(), 0.0
    for step in range(3):
        called: list[tuple[str, list[list[int]], list[str]]] = [(f"aten::{name}", [*of], []) for name, *of in operators]
        now = step_of(made, called, now, step)
    facts = made.facts(tmp_path)
    if not told:
        assert silent("F26", facts)
        return
    found = finding("F26", facts)
    assert told in found.title
    assert found.work is not None
    assert found.work.size == 3 * launches
    assert found.least_ns == 0


@pytest.mark.parametrize(("end", "told"), [("32", True), ("4096", False), ("-4000", True)])
def test_a_sort_is_told_where_only_a_part_of_its_result_is_taken(tmp_path: Path, end: str, told: bool) -> None:
    made, now, dims = Made(), 0.0, [64, 4096]
    for step in range(3):
        taken = ("aten::slice", [dims, [], [], [], []], ["", "1", "0", end, "1"])
        now = step_of(made, [("aten::sort", [dims, [], []], []), taken], now, step)
    facts = made.facts(tmp_path)
    assert silent("F25", facts) if not told else "torch.topk" in finding("F25", facts).advice


@pytest.mark.parametrize(
    ("reader", "type_", "told"),
    [
        ("aten::eq", "long int", True),  # where one stands in the order
        ("aten::eq", "float", False),  # neighbours in what was sorted
        ("aten::_softmax", "long int", False),
    ],
)
def test_a_sort_is_told_where_its_order_is_searched(tmp_path: Path, reader: str, type_: str, told: bool) -> None:
    made, now, dims = Made(), 0.0, [64, 4096]
    for step in range(3):
        called = [("aten::sort", [dims, []]), ("aten::unsqueeze", [[64], []]), (reader, [dims, [64, 1]])]
        now = step_of(made, [(*each, []) for each in [*called, ("aten::eq", [dims, [64, 1]])]], now, step, type_)
    facts = made.facts(tmp_path)
    assert silent("F25", facts) if not told else ".sum(-1)" in finding("F25", facts).advice


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(("types", "told"), [(["double", "Scalar"], True), (["float", "double"], False)])
def test_double_precision_is_told_by_types_and_not_of_a_number_without_a_shape(tmp_path, types, told, single) -> None:
    made, now = Made(), 0.0
    for step in range(3):
        begin, busy = now, now + 15
        for each in [types, *[["float", "Scalar"]] * single]:
            made.host("cpu_op", "aten::mul", now, now + 20, **{"Input Dims": [[8, 8], []], "Input type": each})
            made.launch("some_kernel", (now + 5, now + 10), (busy, busy + 100))
            now, busy = now + 21, busy + 100
        made.host("cuda_runtime", "cudaDeviceSynchronize", now, busy + 4)
        made.step(step, begin, busy + 5)
        now = busy + 6
    facts = made.facts(tmp_path)
    if not told:
        assert silent("K16", facts)
        return
    found = finding("K16", facts)
    assert ("if it is accurate enough" in found.title) is not single
    if not single:  # all of it is double, which is taken to be meant
        assert (found.severity, found.impact_ns) == ("info", None)
        return
    assert found.impact_ns == pytest.approx(100e3, rel=0.1)
    assert found.least_ns == pytest.approx(50e3, rel=0.1)


@pytest.mark.parametrize("lookup", ["embedding", "embedding_bag"])
@pytest.mark.parametrize(("ids", "tied"), [([512, 8], False), ([512, 8], True), ([512, 800], False)])
def test_a_dense_gradient_of_a_table_of_which_little_is_read(tmp_path, ids, tied, lookup) -> None:
    made, now, busy, table = Made(), 0.0, 0.0, [1_000_000, 64]
    for step in range(3):
        begin = now
        for name, dims, last in (
            (f"aten::{lookup}", [table, ids, [], [], []], 10),
            ("aten::linear", [[512, 64], table if tied else [256, 64], []], 10),
            (
                f"{'aten::' if lookup == 'embedding' else 'aten::_'}{lookup}_dense_backward",
                [[512, 8, 64], ids, [], [], []],
                400,
            ),
            ("torch::autograd::AccumulateGrad", [table], 10),
            ("torch::autograd::AccumulateGrad", [[256, 64]], 10),
            ("Optimizer.step#Adam.step", [], 600),
        ):
            kind = "user_annotation" if name.startswith("Optimizer") else "cpu_op"
            made.host(kind, name, now, now + 20, **{"Input Dims": dims})
            made.launch(
                f"{name}_kernel", (now + 5, now + 10), (max(now + 15, busy + 1), max(now + 15, busy + 1) + last)
            )
            now, busy = now + 22, max(now + 15, busy + 1) + last
        made.host("cuda_runtime", "cudaDeviceSynchronize", now, busy + 4)
        now = busy + 5
        made.step(step, begin, now)
    facts = made.facts(tmp_path)
    if tied or ids[1] > 8:
        assert silent("F23", facts)
        return
    found = finding("F23", facts)
    assert "4,096 of 1,000,000 rows" in found.title
    assert found.impact_ns == pytest.approx(1000e3, rel=0.05)


def test_own_work_whose_results_stay_is_told_to_be_done_once() -> None:
    run = run_of("causes/seqrec")
    (mine,) = look("S39", Facts(run)).found[:1]
    assert mine.title.startswith("Do less in Popularity.draw, negatives.py:18")
    assert run.manifest is not None
    (frame,) = {place.frame for place in mine.where}
    file, line = frame.partition("(")[0], int(frame.partition("(")[2].partition(")")[0])
    for whole, title in ((True, "Compute once negatives.py:18, Popularity.draw"), (False, mine.title)):
        same = Unchanged(file, line, "draw", whole=whole)
        measured = replaced(run.manifest.measurement, unchanged=(same,))
        told = replace(run, manifest=replaced(run.manifest, measurement=measured))
        assert look("S39", Facts(told)).found[0].title.startswith(title)


@pytest.mark.parametrize(
    ("function", "change"),
    [("DataLoader.__iter__", "Keep the loader's workers"), ("_BaseDataLoaderIter.__next__", "Load batches faster")],
)
def test_long_steps_in_which_a_loader_begins_are_told_to_keep_its_workers(function: str, change: str) -> None:
    kinds = page_kinds(select(run_of("causes/tabular").main))
    assert kinds is not None
    assert rare_steps._advice(f"held up in dataloader.py: {function}, at train.py:35", kinds)[0] == change
