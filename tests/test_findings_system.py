"""Rules of the whole system: launches, the data loader, waits, copies, small kernels."""

from collections.abc import Callable
from pathlib import Path

import pytest
from judged import find
from made_run import ADD, H200, HGEMM, ORIN, SGEMM, Made, facts_of, finding, look, missing, silent
from msgspec.structs import replace
from nsys_file import NsysFile

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.config import Config
from tracetui.analysis.findings.core import program
from tracetui.analysis.findings.core.finding import Query
from tracetui.analysis.findings.core.where import of_finding
from tracetui.analysis.findings.verdict import verdict
from tracetui.parsers import Trace, open_path
from tracetui.parsers.runs.manifest import Device, Identity, RunManifest, Workload

SYSTEM = ("S1", "S2", "S5", "S6", "S7", "S8", "S10", "S12")
VIM, VIM_NSYS = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz", "nsys/vim_tiny_fp32_bs4.sqlite.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"
ALONE = "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz"
WORKERS = "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz"
HTOD, DTOH = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
PINNED = "Memcpy HtoD (Pinned -> Device)"


def _full_gpu() -> Made:
    """Two steps in which one GEMM follows the other, launched long before."""
    made = Made()
    made.step(1, 0, 1000)
    made.step(2, 1000, 2000)
    made.launch(HGEMM, (0, 5), (5, 1000))
    made.launch(HGEMM, (10, 15), (1000, 1500))
    made.launch(HGEMM, (1001, 1010), (1500, 1999))
    return made


def _value(found: object, label: str) -> object:
    return next(e.value for e in found.evidence if e.label.startswith(label))  # type: ignore[attr-defined]


# --- every rule


def test_a_full_gpu_is_clean(tmp_path: Path) -> None:
    facts = _full_gpu().facts(tmp_path)
    assert all(silent(rule, facts) for rule in ("S1", "S2", "S7", "S8", "S10", "S12"))


# --- S1: the GPU is not the limit


def test_s1_says_that_the_gpu_is_idle(recording: Callable[[str], Trace]) -> None:
    facts = facts_of(recording(VIM))
    found = finding("S1", facts)
    assert found.title == "The GPU is not the limit: it has nothing to do for 97.0 % of the step"
    assert found.impact_ns is None
    assert _value(found, "GPU idle") == pytest.approx(0.97 * facts.page_step.ns, rel=1e-3)


def test_s1_is_silent_where_the_gpu_is_the_limit(recording: Callable[[str], Trace]) -> None:
    assert silent("S1", facts_of(recording(WORKERS)))


def test_s1_is_stricter_with_cuda_graphs(tmp_path: Path) -> None:
    """A quarter of the step idle is much where graphs launch the kernels."""

    def with_launches(graph: bool) -> Made:
        made = Made()
        made.step(1, 0, 5000)
        for at in range(0, 5000, 1000):
            if graph:
                made.replay(HGEMM, (at, at + 10), [(at + 12, at + 400), (at + 400, at + 770)])
            else:
                made.launch(HGEMM, (at, at + 10), (at + 12, at + 400))
                made.launch(HGEMM, (at + 12, at + 20), (at + 400, at + 770))
        return made

    assert finding("S1", with_launches(graph=True).facts(tmp_path)).threshold == (
        "idle above 15.0 % of the step (CUDA graphs)"
    )
    assert silent("S1", with_launches(graph=False).facts(tmp_path))


# --- S2: launch-bound


def test_s2_names_launches_first_and_faster_kernels_not_at_all(recording: Callable[[str], Trace]) -> None:
    """The published profile of vim_tiny advised fp16 first: the GPU is done before the next launch comes."""
    facts = facts_of(recording(VIM))
    ours = find(facts, rules={rule: all_rules()[rule] for rule in (*SYSTEM, "F1", "F2", "F7", "F11", "F12")})
    first = ours.found[0]
    assert first.id == "S2"
    assert first.severity == "critical"
    assert first.title == "Launch the step as CUDA graphs: 680 kernels per step, median 2.624 µs"
    assert first.ceiling_percent == pytest.approx(44.4, abs=0.2)  # ways of up to 200 µs; S13 has the others
    assert first.sure_percent == pytest.approx(44.4, abs=0.2)
    model = facts.host_model
    assert model is not None
    assert first.impact_ns is not None
    assert first.impact_ns == pytest.approx(first.ceiling_percent / 100 * model.step_ns)
    assert first.impact_ns <= model.step_ns - model.host_free_ns
    for word in ("torch.cuda.graph", "torch.compile", "reduce-overhead", "larger batch"):
        assert word in first.advice
    assert "F1" not in [found.id for found in ours.found]
    assert ("F1", "K14") in [(each.finding.id, each.by) for each in ours.suppressed]


def test_s2_agrees_between_tools(recording: Callable[[str], Trace]) -> None:
    found = finding("S2", facts_of(recording(VIM_NSYS)))
    assert found.severity == "critical"
    assert found.ceiling_percent == pytest.approx(71.5, abs=0.5)  # no stacks: fewer ways are long
    ours, theirs = facts_of(recording(VIM)).host_model, facts_of(recording(VIM_NSYS)).host_model
    assert ours is not None
    assert theirs is not None
    assert ours.host_free_ns == pytest.approx(theirs.host_free_ns, rel=0.06)
    assert ours.waits_for == theirs.waits_for == "host"


def _between_launches(category: str, name: str, lasts: float) -> Made:
    """Three steps of 3 ms in which nearly all the time is this event, before each launch of a short kernel."""
    made = Made()
    for number in range(3):
        begin = number * 3000
        made.step(number, begin, begin + 3000)
        for at in range(begin, begin + 3000, int(lasts) + 20):
            made.host(category, name, at + 2, at + 2 + lasts)
            made.launch(HGEMM, (at + 6 + lasts, at + 8 + lasts), (at + 8 + lasts, at + 14 + lasts))
    return made


LOADS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.mark.parametrize(("lasts", "rule"), [(80, "S2"), (980, "S13")])
def test_s2_and_s13_leave_to_the_loader_what_is_the_loaders(tmp_path: Path, lasts: float, rule: str) -> None:
    loads = _between_launches("user_annotation", LOADS, lasts).facts(tmp_path)
    assert silent("S2", loads)
    assert silent("S13", loads)
    assert finding("S5", loads).severity == "critical"
    assert finding(rule, _between_launches("python_function", "a.py(1): f", lasts).facts(tmp_path)).ceiling_percent


def test_the_loader_stands_beside_late_launches(recording: Callable[[str], Trace]) -> None:
    """Without the wait, or without launching, the GPU would be the limit: what is waited for stands first."""
    said = find(facts_of(recording(ALONE)), rules={rule: all_rules()[rule] for rule in (*SYSTEM, "S13")}).found
    assert [each.id for each in said][:3] == ["S5", "S2", "S13"]
    assert {each.severity for each in said[:3]} == {"warning"}


def test_s2_bounds_the_gain_by_the_time_that_the_gpu_is_busy(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    for at in range(0, 1000, 100):
        made.launch(HGEMM, (at + 50, at + 60), (at + 60, at + 68))
    facts = made.facts(tmp_path)
    found = finding("S2", facts)
    # from the step's beginning to the end of its last kernel it takes 968 µs: left are the kernels, what lies between
    # two of them in a queue (1 µs each), and one launch
    assert found.impact_ns == 968_000 - 10 * 8_000 - 9 * 1_000 - 10_000
    assert found.ceiling_percent == pytest.approx(100 * 869 / 968)
    assert "of 968.0 µs" in found.formula


def test_s2_does_not_judge_the_capture_of_graphs(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    for at in range(0, 1000, 100):
        made.launch(HGEMM, (at + 50, at + 60), (at + 60, at + 68))
    made.host("cuda_runtime", "cudaStreamBeginCapture", 10, 20)
    assert "being captured" in missing("S2", made.facts(tmp_path)).missing


def test_s2_advises_larger_graphs_where_graphs_launch_the_kernels(tmp_path: Path) -> None:
    made = Made()
    for number in range(3):
        begin = number * 1000
        made.step(number, begin, begin + 1000)
        for at in range(begin, begin + 1000, 100):
            made.replay(HGEMM, (at + 50, at + 60), [(at + 60, at + 64), (at + 65, at + 69)])
    facts = made.facts(tmp_path)
    found = finding("S2", facts)
    assert found.title.startswith("Capture more in each CUDA graph")
    assert "torch.cuda.graph" not in found.advice
    one_by_one = Made()
    one_by_one.events = [event | {"name": event["name"].replace("Graph", "")} for event in made.events]
    assert finding("S2", one_by_one.facts(tmp_path)).title.startswith("Launch the step as CUDA graphs")


def test_s2_is_silent_where_long_kernels_come_late(tmp_path: Path) -> None:
    """Two launches in a step: what keeps the host from the second is not launching."""
    made = Made()
    made.step(1, 0, 10_000)
    made.launch(HGEMM, (0, 10), (10, 3000))
    made.launch(HGEMM, (6000, 6010), (6020, 9990))
    assert silent("S2", made.facts(tmp_path))


def test_s13_says_what_the_host_does_instead_of_launching(tmp_path: Path) -> None:
    def logging(first_ends: float) -> Made:
        made = Made()
        made.step(1, 0, 9000)
        made.launch(HGEMM, (0, 10), (10, first_ends))
        made.host("python_function", "train.py(7): write_log", 20, 5900)
        made.launch(HGEMM, (6000, 6010), (6020, 8990))
        return made

    found = finding("S13", logging(2000).facts(tmp_path))
    assert found.impact_ns == pytest.approx(4_020_000, rel=0.01)  # from the end of the first kernel to the second
    assert found.ceiling_percent == pytest.approx(44.7, abs=0.5)
    assert silent("S13", logging(5000).facts(tmp_path))  # the GPU's own 8 ms of 9 are the limit
    calls = [each for each in found.evidence if "on the critical path per step" in each.label]
    assert calls[0].label.startswith("train.py(7): write_log")
    assert calls[0].value == 5_880_000
    assert calls[0].query == Query("host", row="train.py(7): write_log")


def test_s13_leaves_launching_to_s2(recording: Callable[[str], Trace], tmp_path: Path) -> None:
    facts = facts_of(recording(VIM))  # its stacks make some ways longer than 200 µs: they may be recording's cost
    assert finding("S13", facts).severity == "warning"
    assert (finding("S13", facts).sure_percent or 0) < (finding("S2", facts).sure_percent or 0)
    made = Made()
    made.step(1, 0, 10_000)
    made.launch(HGEMM, (0, 10), (10, 5000))
    made.launch(HGEMM, (20, 30), (5000, 9990))
    assert silent("S13", made.facts(tmp_path))


def test_s13_needs_calls_of_the_api(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    assert "GPU" in missing("S13", made.facts(tmp_path)).missing


def test_s2_does_not_advise_graphs_to_who_has_them(recording: Callable[[str], Trace]) -> None:
    assert silent("S2", facts_of(recording("chrome/cudagraph_replay.trace.json.gz")))  # busy for 84 % once it works
    assert "JAX's profiler does not record" in missing("S2", facts_of(recording("jax/h200.trace.json.gz"))).missing


def test_s2_obeys_the_users_threshold(recording: Callable[[str], Trace]) -> None:
    said = find(facts_of(recording(VIM)), Config({"S2.late_percent": 99.0}), rules={"S2": all_rules()["S2"]})
    assert not said.found


def test_s2_prints_the_command_that_makes_the_next_run(recording: Callable[[str], Trace]) -> None:
    command = ("tracetui", "profile", "vim_tiny", "--batch", "4")
    manifest = RunManifest(identity=Identity(command=command), workload=Workload(requested_batch=4))
    found = finding("S2", facts_of(recording(VIM), manifest))
    assert found.next_command == "tracetui profile vim_tiny --batch 4 --cuda-graphs"
    own = replace(manifest, identity=Identity(command=("tracetui", "profile", "--", "python", "train.py")))
    assert finding("S2", facts_of(recording(VIM), own)).next_command == ""


def test_s2_needs_api_calls(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel("gemm", 0, 10)
    file.kernel("gemm", 500, 510)
    assert missing("S2", facts_of(open_path(file.write(tmp_path / "a.sqlite"), cache=False).main)).missing == (
        "CUDA API calls"
    )


# --- S5, S6: the data loader


def test_s5_names_the_loader_without_workers(recording: Callable[[str], Trace]) -> None:
    found = finding("S5", facts_of(recording(ALONE)))
    assert found.severity == "warning"  # of 33 %, 18 % are sure whatever recording cost the host
    assert found.ceiling_percent == pytest.approx(32.6, abs=0.2)
    assert found.sure_percent == pytest.approx(18.3, abs=0.3)
    assert "num_workers=0" in found.advice
    assert _value(found, "waits for data, all") == pytest.approx(415791000 / 6, rel=1e-6)


def test_s5_and_s6_with_workers(recording: Callable[[str], Trace]) -> None:
    """1.0 % of the step: not the loader's fault, and not nothing either."""
    facts = facts_of(recording(WORKERS))
    assert silent("S5", facts)
    assert silent("S6", facts)


def test_s6_says_when_the_loader_does_not_matter(recording: Callable[[str], Trace]) -> None:
    facts = facts_of(recording(VIM))
    assert finding("S6", facts).severity == "info"
    assert finding("S6", facts).ceiling_percent is None
    assert silent("S5", facts)


def test_a_loader_behind_a_busy_gpu_costs_nothing(tmp_path: Path) -> None:
    made = _full_gpu()
    made.host("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 20, 600)
    facts = made.facts(tmp_path)
    assert silent("S5", facts)
    assert silent("S6", facts)


def test_s5_knows_ranges_around_the_loader_in_nsys(tmp_path: Path) -> None:
    file = NsysFile()
    for at in (0, 1_000_000, 2_000_000):
        file.push_pop(f"step {at // 1_000_000}", at, at + 1_000_000)
        file.push_pop("data_loading", at, at + 400_000)
        file.launch("gemm", call=(at + 400_000, at + 410_000), kernel=(at + 410_000, at + 990_000))
    facts = facts_of(open_path(file.write(tmp_path / "a.sqlite"), cache=False).main)
    found = finding("S5", facts)
    assert found.impact_ns == pytest.approx(400_000)
    assert found.ceiling_percent == pytest.approx(40.0)
    assert found.severity == "critical"


def test_s5_takes_the_whole_wait_and_its_line_where_no_gpu_work_was_recorded(tmp_path: Path) -> None:
    made = Made()
    for number in range(3):
        at = number * 1000.0
        made.step(number, at, at + 1000)
        made.host("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 10, at + 610)
        made.host("python_function", "train.py(8): __getitem__", at + 20, at + 600)
        made.host("python_function", "<built-in function sleep>", at + 21, at + 599)
        made.host("cpu_op", "aten::mm", at + 700, at + 900)
    facts = made.facts(tmp_path)
    found = finding("S5", facts)
    assert (found.impact_ns, found.ceiling_percent) == (600_000, 60.0)
    assert [(place.frame, place.operator, place.ns) for place in of_finding(facts, found)] == [
        ("train.py(8): __getitem__", "sleep", 578_000), ("train.py(8): __getitem__", "", 2_000),
    ]  # fmt: skip
    assert verdict(facts).sentence.endswith("It waits for data for 60.0 % of the step.")


@pytest.mark.parametrize("rule", ["S5", "S6"])
def test_the_loader_rules_need_its_events(recording: Callable[[str], Trace], rule: str) -> None:
    assert "data_loading" in missing(rule, facts_of(recording(VIM_NSYS))).missing


# --- S7: waits for the GPU


def _with_item(after: float) -> Made:
    """Four steps, each with a loss.item() that waits for a long kernel, and the next launch so much later."""
    made = Made()
    for number in range(4):
        at = number * 10_000.0
        made.step(number, at, at + 10_000)
        made.launch(HGEMM, (at, at + 10), (at + 10, at + 6000))
        made.host("cpu_op", "aten::item", at + 20, at + 6020)
        made.host("cpu_op", "aten::_local_scalar_dense", at + 21, at + 6019)
        made.launch(DTOH, (at + 22, at + 40), (at + 6000, at + 6001), api="cudaMemcpyAsync", kind="gpu_memcpy", bytes=4)
        made.host("cuda_runtime", "cudaStreamSynchronize", at + 41, at + 6010)
        made.launch(HGEMM, (at + 6001 + after - 5, at + 6001 + after), (at + 6001 + after, at + 9999))
        made.launch(HGEMM, (at + 6002 + after, at + 6004 + after), (at + 9999, at + 10_000))
    return made


def test_s7_sizes_the_stall_after_item(tmp_path: Path) -> None:
    found = finding("S7", _with_item(1500).facts(tmp_path))
    assert found.impact_ns == pytest.approx(1_500_000, rel=0.01)
    assert found.ceiling_percent == pytest.approx(15.0, abs=0.1)
    assert "aten::item" in found.title
    assert "every n steps" in found.advice
    assert found.evidence[0].query is not None
    assert (found.evidence[0].query.tab, found.evidence[0].query.row) == ("operators", "aten::item")


@pytest.mark.parametrize(
    ("operator", "word"), [("aten::nonzero", "nonzero_static"), ("aten::_to_copy", "non_blocking=True")]
)
def test_s7_advises_by_who_waits(tmp_path: Path, operator: str, word: str) -> None:
    made = _with_item(1500)
    for event in made.events:
        event["name"] = operator if event["name"].startswith("aten::") else event["name"]
    found = finding("S7", made.facts(tmp_path))
    assert operator in found.title
    assert word in found.advice


def test_s7_is_silent_where_the_next_launch_comes_at_once(tmp_path: Path) -> None:
    assert silent("S7", _with_item(20).facts(tmp_path))


def test_s7_finds_a_final_wait_benign(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 10_000)
    made.launch(HGEMM, (0, 10), (10, 9000))
    made.host("cuda_runtime", "cudaDeviceSynchronize", 20, 9010)
    assert silent("S7", made.facts(tmp_path))


def test_s7_finds_a_wait_for_an_idle_gpu_benign(recording: Callable[[str], Trace]) -> None:
    """vim_tiny calls item() in every step, long after the GPU is done."""
    facts = facts_of(recording(VIM))
    assert silent("S7", facts)


@pytest.mark.parametrize(
    ("name", "advice"), [("gemm", "Take cudaDeviceSynchronize out of the step"), (ADD, "torch.cuda.synchronize")]
)
def test_s7_counts_waits_in_nsys(tmp_path: Path, name: str, advice: str) -> None:
    file = NsysFile()
    for at in (0, 10_000_000):
        file.push_pop(f"step {at}", at, at + 10_000_000)
        file.launch(name, call=(at, at + 1000), kernel=(at + 1000, at + 5_000_000))
        file.call("cudaDeviceSynchronize_v3020", at + 2000, at + 5_100_000)
        file.launch(name, call=(at + 5_900_000, at + 5_990_000), kernel=(at + 6_000_000, at + 9_999_000))
    found = finding("S7", facts_of(open_path(file.write(tmp_path / "a.sqlite"), cache=False).main))
    assert found.impact_ns == pytest.approx(950_000, rel=0.01)  # of 1 ms that is idle
    assert advice in found.advice


# --- S8: pageable copies


def _copying(name: str, device: dict[str, object] = H200, bytes: int = 1 << 24, api: str = "cudaMemcpyAsync") -> Made:
    """The host copies for 2 ms in every step of 10, then launches."""
    made = Made(device)
    for number in range(3):
        at = number * 10_000.0
        made.step(number, at, at + 10_000)
        made.launch(name, (at, at + 2000), (at + 100, at + 1990), api=api, kind="gpu_memcpy", bytes=bytes)
        made.host("cuda_runtime", "cudaStreamSynchronize", at + 2000, at + 2010)
        made.launch(HGEMM, (at + 2010, at + 2020), (at + 2020, at + 9999))
        made.host("cuda_runtime", "cudaDeviceSynchronize", at + 2030, at + 10_000)
    return made


def test_s8_finds_pageable_copies(tmp_path: Path) -> None:
    found = finding("S8", _copying(HTOD).facts(tmp_path))
    assert found.impact_ns is not None
    assert 1_890_000 <= found.impact_ns <= 2_010_000  # the GPU's time in copies, the host's in their calls
    assert "pin_memory=True" in found.advice
    assert "16.00 MiB" in found.title
    assert _value(found, "host in these calls") == 2_010_000


@pytest.mark.parametrize(
    "made",
    [_copying(PINNED), _copying(HTOD, bytes=1 << 15), _copying(HTOD, api="cudaMemcpy"), _copying(HTOD, ORIN)],
    ids=["pinned", "small", "synchronous", "integrated"],
)
def test_s8_is_silent(made: Made, tmp_path: Path) -> None:
    assert silent("S8", made.facts(tmp_path))


def test_s8_believes_run_json_that_a_gpu_is_integrated(tmp_path: Path) -> None:
    facts = _copying(HTOD).facts(tmp_path, RunManifest(device=(Device(integrated=True),)))
    assert program.is_integrated(facts)
    assert silent("S8", facts)


def test_s8_on_recordings(recording: Callable[[str], Trace]) -> None:
    assert not look("S8", facts_of(recording(GPT))).found  # its 5.4 % of the file were before the steps
    said = look("S8", facts_of(recording(VIM_NSYS)))  # 2.4 MB in a step of 77 ms
    assert [each.by for each in said.suppressed] == ["K14"]


def test_s8_needs_to_know_the_memory(recording: Callable[[str], Trace]) -> None:
    """ROCm's traces say "Host -> Device"."""
    assert "kinds of memory" in missing("S8", facts_of(recording("chrome/forms/amd_mi250_rocm.json.gz"))).missing


# --- S10: copies beside kernels


def test_s10_sizes_copies_that_nothing_overlaps(tmp_path: Path) -> None:
    found = finding("S10", _copying(PINNED).facts(tmp_path))
    assert _value(found, "copies to the GPU") == 1_890_000
    assert _value(found, "of it beside a kernel") == 0
    assert found.ceiling_percent == pytest.approx(18.9, abs=0.1)  # their launches stay
    assert "copy_stream" in found.advice
    assert "cudaHostAllocMapped" in finding("S10", _copying(PINNED, ORIN).facts(tmp_path)).advice


@pytest.mark.parametrize("waits", [True, False])
def test_s10_names_the_wait_that_keeps_its_stream_back(tmp_path: Path, waits: bool) -> None:
    made = Made()
    for step in range(3):
        at = step * 10_000.0
        made.step(step, at, at + 10_000)
        made.host("python_function", "train.py(5): step", at, at + 9_990)
        made.launch(HGEMM, (at + 10, at + 20), (at + 30, at + 5_000))
        made.host("python_function", "feeder.py(33): buffer_ready", at + 30, at + 60)
        if waits:
            made.host("cuda_runtime", "cudaStreamWaitEvent", at + 40, at + 45)
        made.launch(PINNED, (at + 70, at + 80), (at + 5_004, at + 9_000), api="cudaMemcpyAsync", kind="gpu_memcpy",
                    stream=20, bytes=1 << 24)  # fmt: skip
        made.host("cuda_runtime", "cudaDeviceSynchronize", at + 100, at + 9_010)
    said = finding("S10", made.facts(tmp_path)).advice
    assert ("waits for all work queued before, at feeder.py(33): buffer_ready" in said) == waits


def test_s10_is_silent_where_a_kernel_runs_beside(tmp_path: Path) -> None:
    made = _full_gpu()
    made.launch(PINNED, (20, 30), (100, 500), api="cudaMemcpyAsync", kind="gpu_memcpy", stream=20, bytes=1 << 24)
    assert silent("S10", made.facts(tmp_path))


def test_s10_is_silent_where_copies_are_short(recording: Callable[[str], Trace]) -> None:
    assert silent("S10", facts_of(recording(VIM)))


# --- S12: small kernels


def test_s12_counts_rows_of_small_kernels(recording: Callable[[str], Trace]) -> None:
    found = finding("S12", facts_of(recording(VIM)))
    assert _value(found, "small kernels, of launches") == pytest.approx(100 * 1749 / 2040)
    assert found.impact_ns is not None
    assert found.impact_ns < (finding("S2", facts_of(recording(VIM))).impact_ns or 0)


def test_s12_spares_all_but_one_of_a_row_and_no_gemm(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    for number in range(10):
        at = number * 100.0
        made.launch(SGEMM if number in (4, 8) else ADD, (at, at + 10), (at + 12, at + 20))
    found = finding("S12", made.facts(tmp_path))
    assert _value(found, "launches per step that fusing could spare") == 7
    assert found.impact_ns == pytest.approx(700_000, rel=0.02)


def test_s12_promises_nothing_where_only_gemms_are_small(recording: Callable[[str], Trace]) -> None:
    found = finding("S12", facts_of(recording("chrome/cudagraph_replay.trace.json.gz")))
    assert (found.impact_ns, found.ceiling_percent) == (None, None)
    assert "CUDA graphs spare their launches already" in found.advice


def test_s12_is_silent_where_small_kernels_take_little_time(recording: Callable[[str], Trace]) -> None:
    """60 % of the launches of gpt_small are short, and 12 % of its kernel time."""
    assert silent("S12", facts_of(recording("nsys/gpt_small_ctx256.sqlite.gz")))


def test_s12_is_silent_where_long_kernels_stand_between(tmp_path: Path) -> None:
    made = Made()
    made.step(1, 0, 1000)
    for number in range(10):
        at = number * 100.0
        made.launch(ADD, (at, at + 10), (at + 12, at + (19 if number % 3 else 23)))
    assert silent("S12", made.facts(tmp_path))


def test_pauses_between_steps_are_no_idle_time_of_the_steps(tmp_path: Path) -> None:
    made = Made()
    for number, begin in enumerate((0, 50_000)):
        made.step(number, begin, 1000)
        for at in range(begin, begin + 1000, 100):
            made.launch(HGEMM, (at + 50, at + 60), (at + 60, at + 68))
    found = finding("S2", made.facts(tmp_path))
    assert found.impact_ns is not None
    assert found.impact_ns <= 1_000_000 - 10 * 8_000
    assert "-" not in found.formula
