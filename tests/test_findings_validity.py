"""Rules on the measurement itself: each with a case where it fires, one where it does not, and one without evidence."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from chrome_file import ChromeFile
from judged import abstains, facts, fired, fires, manifest, silent
from made_run import ADD, HGEMM, Made
from ncu_file import SOL, long_table
from nsys_file import NsysFile, global_pid
from nvtx_trace import nvtx_trace
from sample_runs import recorded

from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.analysis.findings.validity.steps import before_computing
from tracetui.parsers import Run, Source, Trace, TraceInfo, open_path
from tracetui.parsers.iterations import as_recorded
from tracetui.parsers.tool_registry import KINDS
from tracetui.parsers.trace import Note

Recording = Callable[[str], Trace]

VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
VIM_NSYS = "nsys/vim_tiny_fp32_bs4.sqlite.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"
DEIT = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"
MLP = "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"
MS = 1_000_000


def evidence(finding, label):
    (value,) = [item.value for item in finding.evidence if item.label == label]
    return value


# --- V1


def steps_of(tmp_path: Path, name: str, batch: int, *, copied: int | None = None, calls: int = 1) -> Facts:
    """Three steps that convolve images of 3 x 8 x 8 floats and copy `copied` of them to the GPU."""
    file = ChromeFile()
    for number in range(3):
        at = 1000.0 * number
        file.step(number, at, at + 900)
        for part in range(calls):
            begin = at + 100 + 100 * part
            file.operator("aten::conv2d", begin, begin + 50, [[batch, 3, 8, 8], [16, 3, 2, 2]])
            file.launch("conv", (begin + 10, begin + 20), (begin + 30, begin + 60))
        if copied is not None:
            file.copy("Memcpy HtoD (Pinned -> Device)", (at + 10, at + 20), (at + 30, at + 40), copied * 768)
    return facts(file.write(tmp_path / f"{name}.pt.trace.json"))


def with_batch(found: Facts, **workload: object) -> Facts:
    return Facts(replace(found.run, manifest=manifest(workload=workload)))


def test_another_batch_than_was_asked_for(tmp_path):
    finding = fires("V1", with_batch(steps_of(tmp_path, "a", 120, copied=120), requested_batch=4))
    assert finding.title == "A step holds 120 samples, not the 4 asked for"
    assert finding.formula == "120 / 4 = 30.0"
    assert evidence(finding, "input of aten::conv2d") == "120x3x8x8"
    assert evidence(finding, "samples copied to the GPU per step") == 120


def test_the_batch_of_a_files_name(recording: Recording, tmp_path):
    assert silent("V1", facts(recording(VIM)))
    assert silent("V1", facts(recording(DEIT)))
    assert "8 samples, not the 16" in fires("V1", steps_of(tmp_path, "net_bs16", 8)).title


def test_a_batch_that_is_split_is_whole(tmp_path):
    assert silent("V1", with_batch(steps_of(tmp_path, "micro", 8, calls=4), requested_batch=32))
    ranks = steps_of(tmp_path, "rank", 8)
    trace = replace(ranks.trace, info=replace(ranks.trace.info, world_size=4))
    assert silent("V1", Facts(Run(Path("r"), (trace,), manifest=manifest(workload={"requested_batch": 32}))))


def test_the_batch_by_what_is_copied(tmp_path):
    """nsys records no shapes, but how many bytes are copied; run.json knows the images."""

    def run(images: int) -> Facts:
        file = NsysFile()
        for number in range(3):
            at = number * 10 * MS
            file.push_pop(f"step {number}", at, at + 9 * MS)
            copy = file.call("cudaMemcpyAsync_v3020", at + 10, at + 20)
            file.memcpy(at + 100, at + MS, bytes=images * 602112 + 32, correlation=copy)
            file.launch("k", (at + 30, at + 40), (at + 2 * MS, at + 3 * MS))
        said = manifest(workload={"requested_batch": 4, "input_shapes": [[4, 3, 224, 224]]})
        return facts(file.write(tmp_path / f"{images}.sqlite"), said=said)

    assert "120 samples, not the 4" in fires("V1", run(120)).title
    assert silent("V1", run(4))
    assert silent("V1", run(1))  # images of one byte per value


def test_the_batch_that_the_run_counted(recording: Recording):
    def run(batch: int) -> Facts:
        said = manifest(workload={"requested_batch": 4, "batch": batch})
        return Facts(Run(Path("r"), (recording(VIM_NSYS),), manifest=said))

    assert "6 samples, not the 4" in fires("V1", run(6)).title
    assert silent("V1", run(4))


def test_the_batch_that_nobody_asked_for(recording: Recording, tmp_path):
    assert "asked for" in abstains("V1", facts(recording(GPT)))
    assert "record_shapes" in abstains("V1", facts(recording(VIM_NSYS)))
    assert "a recording with a time line" in abstains("V1", facts(recording("ncu/scan_metrics_raw.csv.gz")))


# --- V2


def test_a_part_longer_than_its_whole():
    trace = nvtx_trace(
        ("range", "forward_pass", 0, 443_260_000),
        ("range", "forward_pass", 500 * MS, 943_260_000),
        ("range", "train_step", 1000 * MS, 1269_250_000),
        ("range", "forward_pass", 1001 * MS, 1269 * MS),
    )
    finding = fires("V2", facts(trace))
    assert finding.severity == "invalid"
    assert "164.6 %" in finding.title
    assert all_rules()["V2"].refutes == ("shares",)


def test_steps_that_overlap(recording: Recording):
    trace = recording(VIM)
    steps = trace.steps.with_columns(start=pl.Series([0, 100, 200]), duration=pl.Series([180, 180, 180]))
    assert "142.1 %" in fires("V2", facts(replace(trace, steps=steps))).title


@pytest.mark.parametrize("name", [VIM, GPT, DEIT, VIM_NSYS, "chrome/forms/cpu_only_rank34.json.gz"])
def test_possible_shares(recording: Recording, name: str):
    assert silent("V2", facts(recording(name)))


def test_a_range_that_goes_on_after_its_step_is_no_part_of_it():
    """As an epoch's does that begins inside the first step."""
    trace = nvtx_trace(
        ("range", "train_step", 0, 100), ("range", "train_step", 200, 300), ("range", "epoch", 50, 1000),
    )  # fmt: skip
    assert silent("V2", facts(trace))


def test_shares_without_steps(recording: Recording):
    assert "steps" in abstains("V2", facts(recording("chrome/cudagraph_replay.trace.json.gz")))


# --- V3


def test_work_outside_of_the_steps(recording: Recording):
    finding = fires("V3", facts(recording(GPT)))
    assert finding.title == "69.2 % of the GPU time was launched outside the 2 steps"


def test_steps_that_differ(recording: Recording):
    finding = fires("V3", facts(recording("chrome/forms/amd_mi250_rocm.json.gz")))
    assert evidence(finding, "kernels per step") == "14, 0"


def test_more_kernel_time_than_there_was():
    kernels = [("kernel", "k", at, at + 100, {"stream": 7}) for at in range(0, 1000, 10)]
    finding = fires("V3", facts(nvtx_trace(*kernels)))
    assert "The kernels take 917.4 % of the time" in finding.title


def test_warm_up_without_steps():
    def run(warmup: int) -> Facts:
        return facts(
            nvtx_trace(
                ("range", "warmup", 0, 100), ("call", "cudaLaunchKernel", 10, 20),
                ("kernel", "k", 30, 30 + warmup, {"launch": 10}),
                ("call", "cudaLaunchKernel", 200, 210), ("kernel", "k", 3000, 4000, {"launch": 200}),
            )
        )  # fmt: skip

    assert "50.0 % of the GPU time is warm-up" in fires("V3", run(1000)).title
    assert silent("V3", run(10))


def test_whole_equal_steps(recording: Recording):
    assert silent("V3", facts(recording(VIM)))
    assert silent("V3", facts(recording("chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz")))
    assert silent("V3", facts(recording("chrome/hta_trace_diff/test.json.gz")))
    assert "steps" in abstains("V3", facts(recording("ops/ops.sqlite.gz")))


# --- V4, V5


def test_counters_of_too_little():
    found = facts(recorded(VIM), recorded("ncu/scan_metrics_raw.csv.gz"))
    finding = fires("V4", found)
    assert "only 24.7 % of the kernel time" in finding.title
    assert finding.next_command.startswith("ncu --set full")
    assert "^(selective_scan_fwd_kernel|" in finding.next_command
    assert "95.8 %" in finding.advice
    assert silent("V4", facts(recorded(VIM_NSYS), recorded("ncu/vim_full_raw.csv.gz")))


COPY = "void at::native::vectorized_elementwise_kernel<4, at::native::float16_copy_kernel_cuda>(int)"


def test_counters_of_copies_alone(tmp_path, recording: Recording):
    rows = [(n, COPY, SOL, "Compute (SM) Throughput", "%", "3.2") for n in range(3)]
    (tmp_path / "copies.csv").write_text(long_table(rows))
    finding = fires("V4", facts(tmp_path / "copies.csv"))
    assert finding.title == "All 3 measured launches are copies: nothing that computes was measured"
    assert "the share of the GPU time" in abstains("V4", facts(recording("ncu/vim_full_raw.csv.gz")))
    assert "Nsight Compute" in abstains("V4", facts(recording(VIM)))


def test_kernels_under_ncu_and_in_the_run(recording: Recording):
    finding = fires("V5", facts(recorded(VIM_NSYS), recorded("ncu/vim_full_raw.csv.gz")))
    assert "10.0 µs and more take 1.19 times" in finding.title
    assert silent("V5", facts(recorded("ops")))
    assert "Nsight Compute" in abstains("V5", facts(recording(VIM)))


def test_short_kernels_say_nothing_of_conditions(tmp_path):
    file = NsysFile()
    file.launch("k", (10, 20), (30, 5030), grid=(96, 2, 1), block=(128, 1, 1))
    (tmp_path / "ncu.csv").write_text(long_table([(0, "k", SOL, "Duration", "us", "50")]))
    assert "measured kernels of 10.0 µs" in abstains(
        "V5", facts(file.write(tmp_path / "a.sqlite"), tmp_path / "ncu.csv")
    )


def test_counters_of_another_run_say_nothing_of_conditions(tmp_path):
    file = NsysFile()
    file.launch("k", (10, 20), (30, 50_030), grid=(1, 1, 1), block=(128, 1, 1))
    (tmp_path / "ncu.csv").write_text(long_table([(0, "k", SOL, "Duration", "us", "50")]))
    said = facts(file.write(tmp_path / "a.sqlite"), tmp_path / "ncu.csv")
    assert "of another run (V25)" in abstains("V5", said)
    assert "of another run (V25)" in abstains("V4", said)


# --- V6, V7


def test_warm_up_in_the_data(recording: Recording):
    finding = fires("V6", facts(with_the_first(recording(VIM_NSYS))))
    assert finding.title == (
        "The first step is a warm-up: it takes 1.97 times as long as the others; loading GPU code takes 15.5 % of the"
        " time"
    )
    assert evidence(finding, "loading of GPU code") == 35_550_736
    assert silent("V6", facts(recording(VIM_NSYS)))  # the warm-up is left out
    assert silent("V6", facts(recording(VIM)))
    assert silent("V6", facts(recording(MLP)))
    assert "two steps or more" in abstains("V6", facts(recording("chrome/cudagraph_replay.trace.json.gz")))


def test_long_steps_that_come_again_are_no_warm_up(tmp_path):
    assert silent("V6", uneven(tmp_path, 400, 100, 101, 390, 99, 102))  # a pause in every third step
    assert fires("V6", uneven(tmp_path, 400, 300, 101, 100, 99, 102))  # two steps to warm up


def with_the_first(trace: Trace) -> Trace:
    """The recording with all three of its batches as the profiler's own steps, which are never left out."""
    marks = trace.host.filter(pl.col("name").cast(pl.String).str.starts_with("batch_")).sort("start")
    steps = marks.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("index"), pl.col("name").cast(pl.String), "start", "duration"
    )
    called = trace.host["start"].gather(trace.device["launch"])
    step = steps["start"].search_sorted(called.fill_null(0), side="right").cast(pl.Int64) - 1
    rows = pl.select(pl.when(step >= 0).then(step).cast(pl.UInt32)).to_series()
    device = trace.device.with_columns(rows.alias("step"))
    return replace(trace, steps=steps, device=device, marked_by=None)


def uneven(tmp_path: Path, *durations: float) -> Facts:
    file, at = ChromeFile(), 0.0
    for number, duration in enumerate(durations):
        file.step(number, at, at + duration)
        at += duration
    return facts(file.write(tmp_path / "steps.json"))


def test_noise(tmp_path):
    finding = fires("V7", uneven(tmp_path, 100, 110, 120, 90, 105))
    assert finding.title == "The steps vary by ± 13.2 % (95 % interval of 5 steps)"
    assert silent("V7", uneven(tmp_path, 100, 101, 99, 100))
    assert silent("V7", uneven(tmp_path, 300, 100, 101, 99))  # that the first is warm-up is for V6 to say
    assert "three steps" in abstains("V7", uneven(tmp_path, 100, 110))


# --- V9, V10, V11


def test_launches_without_kernels(tmp_path, recording: Recording):
    file = ChromeFile()
    for at in range(0, 100, 10):
        file.call("cudaLaunchKernel", (at, at + 5))
    finding = fires("V9", facts(file.write(tmp_path / "a.json")))
    assert finding.title == "10 kernel launches, but no kernel was recorded: nothing can be said of the GPU"
    assert finding.severity == "invalid"
    assert silent("V9", facts(recording(VIM)))
    assert "launch with tracetui profile" in abstains("V9", facts(recording(MLP)))
    said = manifest(workload={"device": "cuda:0"})
    assert "Ran on a GPU" in fires("V9", Facts(Run(Path("r"), (recording(MLP),), manifest=said))).title


def test_memory_of_a_gpu_that_recorded_nothing(recording: Recording):
    """On a Jetson without root torch sees neither calls nor kernels, but what it allocates."""
    trace = recording(MLP)
    on_gpu = trace.memory.with_columns(device_type=pl.lit(1, pl.Int64))
    assert "no kernel was recorded" in fires("V9", facts(replace(trace, memory=on_gpu))).title


def test_kernels_that_take_no_time(tmp_path):
    file = ChromeFile()
    file.launch("k", (0, 5), (10, 10))
    assert "none took any time" in fires("V9", facts(file.write(tmp_path / "a.json"))).title


@pytest.mark.parametrize(("unit", "told"), [(1.0, False), (1e-6, True)])
def test_times_in_seconds_are_told_by_launches_that_take_none(tmp_path, unit: float, told: bool):
    file = ChromeFile()
    for at in range(0, 100, 20):
        file.launch("k", (at * unit, (at + 5) * unit), ((at + 10) * unit, (at + 10) * unit))
    found = fires("V9", facts(file.write(tmp_path / "a.json")))
    assert ("times are not in µs" in found.title) is told
    assert ("Write times in µs" in found.advice) is told


@pytest.mark.parametrize(("unit", "told"), [(1.0, False), (1000.0, True)])
def test_times_in_nanoseconds_are_told_by_calls_that_all_take_long(tmp_path, unit: float, told: bool):
    file = ChromeFile()
    for at in range(0, 2200, 20):
        file.launch("k", (at * unit, (at + 5) * unit), ((at + 10) * unit, (at + 12.5) * unit))
    found = facts(file.write(tmp_path / "a.json"))
    if told:
        assert (
            fires("V22", found).title == "None of 220 kernels and calls takes less than 2.500 ms: times are not in µs"
        )
    else:
        assert silent("V22", found)


def test_kernels_before_their_launch(tmp_path, recording: Recording):
    file = ChromeFile()
    for at in range(0, 1000, 100):
        file.launch("k", (at + 50, at + 55), (at, at + 40))
    finding = fires("V10", facts(file.write(tmp_path / "a.json")))
    assert (
        finding.title
        == "100.0 % of the launched work begins before its launch, up to 50.00 µs: the GPU's clock is early"
    )
    assert "1 of 33 events" in fires("V10", facts(recorded("broken/negative_dur.json"))).title
    for name in (VIM, VIM_NSYS, "jax/h200.trace.json.gz", "chrome/hta_trace_diff/test.json.gz"):
        assert silent("V10", facts(recording(name)))
    lone = ChromeFile()
    lone.event("kernel", "k", (0, 5), pid=0, tid=7, stream=7, device=0)
    assert "record the CUDA API" in abstains("V10", facts(lone.write(tmp_path / "b.json")))


@pytest.mark.parametrize(("busy_until", "told"), [(60, True), (4e9 - 20, False)])
def test_kernels_hours_after_their_launch(tmp_path: Path, busy_until: float, told: bool) -> None:
    file = ChromeFile()
    file.launch("first", (10, 15), (20, busy_until))
    file.launch("late", (40, 45), (4e9, 4e9 + 50))
    found = facts(file.write(tmp_path / "a.json"))
    if not told:  # it waits for what is before it
        assert silent("V10", found)
        return
    finding = fires("V10", found)
    assert finding.severity == "invalid"
    assert finding.title == (
        "1 of 2 GPU activities begin hours after their launch (4,000 s the first), though their GPU was idle"
    )


def empty_nsys(tmp_path: Path, **settings: str) -> Facts:
    file = NsysFile()
    file.push_pop("forward_pass", 0, 100)
    for name, value in settings.items():
        file.capture_setting(name, value)
    return facts(file.write(tmp_path / "empty.sqlite"))


def test_an_empty_capture(tmp_path, recording: Recording):
    finding = fires("V11", empty_nsys(tmp_path, START_TRIGGER="CudaProfilerApi", CAPTURE_EVENT_TYPE="NvtxEvents, Cuda"))
    assert finding.severity == "invalid"
    assert "waited for CudaProfilerApi" in finding.title
    assert "cudaProfilerStart" in finding.advice
    assert silent("V11", facts(recording(VIM_NSYS)))
    assert "Nsight" in abstains("V11", facts(recording(VIM)))


def test_a_capture_without_cuda(tmp_path):
    assert "only NvtxEvents" in fires("V11", empty_nsys(tmp_path, CAPTURE_EVENT_TYPE="NvtxEvents")).title


def test_a_capture_that_run_json_tells_of(tmp_path):
    file = NsysFile()
    file.push_pop("forward_pass", 0, 100)
    said = manifest(
        measurement={"commands": [["nsys", "profile", "--capture-range=cudaProfilerApi", "python", "x.py"]]}
    )
    finding = fires("V11", facts(file.write(tmp_path / "a.sqlite"), said=said))
    assert "waited for cudaProfilerApi" in finding.title


def test_launches_without_kernels_are_no_empty_capture(tmp_path):
    file = NsysFile()
    file.call("cudaLaunchKernel_v7000", 0, 10)
    found = facts(file.write(tmp_path / "a.sqlite"))
    assert silent("V11", found)
    fires("V9", found)


# --- V12, V13


def test_names_that_are_numbers(tmp_path, recording: Recording):
    file = ChromeFile()
    for n in range(10):
        file.launch(f"117{n}" if n < 8 else "softmax", (10 * n, 10 * n + 1), (10 * n + 2, 10 * n + 9))
    finding = fires("V12", facts(file.write(tmp_path / "a.json")))
    assert '80.0 % of the kernel launches have no name (such as "1170")' in finding.title
    for name in (VIM, VIM_NSYS, "jax/h200.trace.json.gz"):
        assert silent("V12", facts(recording(name)))


def test_ids_of_strings_that_are_lost(tmp_path):
    file = NsysFile()
    for n in range(4):
        file.launch("k", (100 * n, 100 * n + 10), (100 * n + 20, 100 * n + 90), demangledName=1000 + n)
    assert "100.0 % of the kernel launches" in fires("V12", facts(file.write(tmp_path / "a.sqlite"))).title


def test_ranges_without_a_text():
    ranges = [("range", "", 100 * n, 100 * n + 50) for n in range(5)]
    assert "100.0 % of the ranges have no text" in fires("V12", facts(nvtx_trace(*ranges))).title


def test_no_names_to_resolve(tmp_path):
    file = ChromeFile()
    file.operator("aten::mm", 0, 10)
    assert "kernels or ranges" in abstains("V12", facts(file.write(tmp_path / "a.json")))


def test_host_time_is_not_gpu_time(recording: Recording):
    finding = fires("V13", facts(recording("nsys/gpt_small_ctx256.sqlite.gz")))
    assert evidence(finding, "computing softmax: GPU over host") == 0.19
    assert silent("V13", facts(recording("nsys/graph_node.sqlite.gz")))
    assert silent("V13", facts(recording(DEIT)))  # torch sets the range of the optimizer itself
    assert "ranges" in abstains("V13", facts(recording("chrome/cudagraph_replay.trace.json.gz")))


# --- V16, V17


@pytest.mark.parametrize("name", ["truncated_gzip.json.gz", "truncated_mid_event.json", "truncated_no_closing.json"])
def test_truncated(name: str):
    assert fires("V16", facts(recorded(f"broken/{name}"))).severity == "invalid"


def test_whole_files(recording: Recording):
    assert silent("V16", facts(recorded("broken/ok.json")))
    assert silent("V16", facts(recording("memory/gpt_memory_snapshot.pickle.gz")))


def test_loading_that_was_stopped(recording: Recording):
    trace = recording(VIM)
    stopped = replace(trace, source=replace(trace.source, partial=True))
    assert "loading was stopped" in fires("V16", facts(stopped)).title


def test_lost_kernels(tmp_path, recording: Recording):
    def run(lost: int) -> Facts:
        file = NsysFile()
        for n in range(100):
            file.launch("k", (100 * n, 100 * n + 10), (100 * n + 20, 100 * n + 90))
        for n in range(lost):
            file.call("cudaLaunchKernel_v7000", 20_000 + 100 * n, 20_010 + 100 * n)
        file.diagnostic("Not all CUDA events might have been collected.")
        return facts(file.write(tmp_path / f"{lost}.sqlite"))

    assert fires("V17", run(25)).title == "GPU events are missing for 20.0 % of the launches"
    lost = NsysFile()
    lost.launch("k", (0, 10), (20, 90))
    lost.row("DIAGNOSTIC_EVENT", severity=2, text="CUDA events were lost.", globalPid=global_pid(200))
    assert silent("V17", facts(lost.write(tmp_path / "other.sqlite")))  # another program's events
    assert silent("V17", facts(recording("chrome/cudagraph_replay.trace.json.gz")))
    assert "CUDA API calls" in abstains("V17", facts(recording(MLP)))


def test_work_that_nothing_launched(recording: Recording):
    """Calls that were lost count too, what was queued before the recording does not (`test_perturbed.py`)."""
    trace = recording(DEIT)
    middle = int(trace.device["start"].median())  # type: ignore[arg-type]
    for of_these, said in ((pl.col("start") > middle, True), (pl.col("start") < middle, False)):
        launch = pl.when(of_these).then(None).otherwise("launch")
        found = facts(replace(trace, device=trace.device.with_columns(launch=launch)))
        assert fires("V32", found) if said else silent("V32", found)
        lost = fires("V17", found)
        assert (lost.severity, lost.title.startswith("Launches are missing: 50.0 %")) == ("invalid", said)
    none = trace.device.with_columns(launch=pl.lit(None, pl.UInt32))
    assert "launches" in abstains("V32", facts(replace(trace, device=none)))


@pytest.mark.parametrize("name", [VIM_NSYS, "nsys/graph_whole.sqlite.gz"])
def test_a_warning_of_nearly_every_export_is_told_and_takes_nothing_away(recording: Recording, name: str):
    said = fires("V17", facts(recording(name)))
    assert said.severity == "info"
    assert "not all CUDA, NVTX events might have been collected: each of " in said.title
    assert "launches has its kernel" in said.title
    assert (said.refutes, said.doubts) == ((), ())


@pytest.mark.parametrize(
    ("text", "doubts"),
    [
        ("12 CUDA events were lost.", ("gpu", "shares", "whole", "steps")),
        ("Event buffer overflow: events were discarded.", ("gpu", "shares", "whole", "steps")),
        ("NVTX events were dropped.", ("steps",)),
        ("The collection of IP samples exceeded its limit.", ()),
    ],
)
def test_what_a_profiler_says_it_lost_is_doubted(tmp_path, text: str, doubts: tuple[str, ...]):
    file = NsysFile()
    file.launch("k", (0, 10), (20, 90))
    file.diagnostic(text)
    said = fires("V17", facts(file.write(tmp_path / "a.sqlite")))
    assert (said.severity, said.doubts) == ("warning", doubts)


def test_lost_kernels_that_nobody_told_of(tmp_path):
    file = ChromeFile()
    for n in range(20):
        file.launch("k", (100 * n, 100 * n + 10), (100 * n + 20, 100 * n + 90))
        file.call("cudaLaunchKernel", (100 * n + 95, 100 * n + 99))
    assert "50.0 % of the launches" in fires("V17", facts(file.write(tmp_path / "a.json"))).title


def test_launches_into_a_graph_are_not_lost(tmp_path):
    file = NsysFile()
    file.call("cudaStreamBeginCapture_v10000", 0, 10)
    for n in range(1, 10):
        file.call("cudaLaunchKernel_v7000", 10 * n, 10 * n + 5)
    file.call("cudaStreamEndCapture_v10000", 110, 120)
    graph = file.call("cudaGraphLaunch_v10000", 200, 210)
    file.graph(220, 300, correlation=graph)
    assert silent("V17", facts(file.write(tmp_path / "a.sqlite")))


def test_a_profiler_that_counts_what_it_drops(recording: Recording):
    said = manifest(outcome={"events_dropped": 4711})
    assert "4,711" in fires("V17", Facts(Run(Path("r"), (recording(VIM),), manifest=said))).title


# --- V8, V14, V18


def timed(trace: Trace, clean: list[int], profiled: list[int] | None = None, **flags: bool) -> Facts:
    said = manifest(measurement={"clean_step_ns": clean, "profiled_step_ns": profiled or [], "flags": flags})
    return Facts(Run(Path("r"), (trace,), manifest=said))


def test_the_profilers_cost(recording: Recording):
    finding = fires("V8", timed(recording(VIM), [50 * MS] * 5, [105 * MS] * 3, with_stack=True))
    assert finding.title == "The profiler slows a step down 2.10 times"
    assert "record with --no-stack" in finding.advice
    assert evidence(finding, "at most to gain of the clean step from idle time") == pytest.approx(93.663, abs=0.001)
    assert "2.06 times" in fires("V8", timed(recording(VIM), [50 * MS] * 5)).title
    assert silent("V8", timed(recording(VIM), [100 * MS] * 5, [105 * MS] * 3))
    longer = fires("V8", timed(recording(VIM), [400 * MS] * 5, [100 * MS] * 3))
    assert longer.title.startswith("A step takes 4.00 times as long without the profiler as under it: 400.0 ms,")
    assert (longer.severity, longer.doubts, finding.doubts) == ("warning", None, ()), "only what is longer doubts"
    assert silent("V8", timed(recording(VIM), [400 * MS] * 5, [100 * MS, 100 * MS, 500 * MS]))
    assert "--clean-steps" in abstains("V8", timed(recording(VIM), []))
    assert "run.json" in abstains("V8", facts(recording(VIM)))


def test_runs_that_can_not_be_compared(recording: Recording):
    ours, theirs = facts(recording(VIM)), facts(recording("chrome/hta_trace_diff/test.json.gz"))
    finding = fires("V14", Pair(ours, theirs))
    assert "gpu" in finding.title
    assert "Tesla V100" in finding.formula
    assert silent("V14", Pair(ours, facts(recording("chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"))))


def test_runs_of_another_power_mode(recording: Recording):
    def run(mode: str) -> Facts:
        return Facts(Run(Path(mode), (recording(VIM),), manifest=manifest(power={"before": {"mode_name": mode}})))

    assert "power" in fires("V14", Pair(run("15W"), run("25W"))).title
    assert silent("V14", Pair(run("15W"), run("15W")))


def test_runs_of_which_nothing_is_known():
    bare = facts(nvtx_trace(("call", "cudaLaunchKernel", 0, 10)))
    assert "launch with tracetui profile" in abstains("V14", Pair(bare, bare))


def test_code_that_stands_in_for_kernels(recording: Recording, tmp_path):
    said = manifest(workload={"backend": "reference"})
    assert fires("V18", Facts(Run(Path("r"), (recording(DEIT),), manifest=said))).severity == "critical"
    assert silent("V18", facts(recording(VIM)))
    file = ChromeFile()
    file.python("mamba_ssm/ops/selective_scan_interface.py(96): selective_scan_ref", 0, 100)
    assert "selective_scan_ref" in fires("V18", facts(file.write(tmp_path / "a.json"))).title
    assert "with_stack" in abstains("V18", facts(recording(DEIT)))


# --- all of them


def test_no_rule_fails_on_nothing():
    for kind in KINDS:
        nothing = Trace.empty(TraceInfo(kind, "none"), Source(Path("nothing"), 0))
        found = fired(facts(nothing))
        assert found == ({"V11"} if kind in ("nsys", "ncu") else set())


def test_no_rule_fails_on_damaged_files():
    for path in sorted(recorded("broken").iterdir()):
        expected = {"V16"} if path.name.startswith("truncated") else {"V10"} if "negative" in path.name else set()
        # most launches of these 33 events were left out, so that a replay of them misses half of a step
        assert fired(facts(path)) - {"V3", "V17", "V26", "V32"} == expected, path.name


RECORDINGS = {
    "chrome/cudagraph_replay.trace.json.gz": set(),
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz": set(),
    "chrome/ddp_vit_small_2ranks/rank1.pt.trace.json.gz": {"V7"},
    DEIT: set(),
    "chrome/forms/amd_mi250_rocm.json.gz": {"V3"},
    "chrome/forms/cpu_only_rank34.json.gz": set(),
    MLP: set(),
    GPT: {"V3", "V13"},
    # of 2021 and 2022, when torch wrote whole microseconds
    "chrome/hta_trace_diff/control.json.gz": {"V13", "V23", "V26"},
    "chrome/hta_trace_diff/test.json.gz": {"V13", "V23"},  # without its first step, of a kind of its own, alike
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz": {"V23"},
    "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz": {"V23", "V26"},  # two of six are S28's
    "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz": {"V7"},
    VIM: {"V7"},
    "jax/h200.trace.json.gz": {"V6", "V26"},
    "memory/gpt_memory_snapshot.pickle.gz": set(),
    "ncu/scan_metrics_raw.csv.gz": set(),
    "ncu/vim_full_raw.csv.gz": set(),
    "nsys/gpt_small_ctx256.sqlite.gz": {"V7", "V13", "V17", "V26"},
    "nsys/graph_node.sqlite.gz": {"V17"},
    "nsys/graph_whole.sqlite.gz": {"V17"},
    VIM_NSYS: {"V13", "V17"},
    "ops/ops.ncu.csv.gz": {"V27"},  # one program of all types
    "ops/ops.sqlite.gz": {"V13", "V17", "V26"},
    "ops/ops.trace.json.gz": {"V13", "V26"},
}
"""What the rules find in each recording, judged one by one."""


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_rule_cries_wolf(recording: Recording, name: str):
    assert fired(facts(recording(name)), "VT") == RECORDINGS[name]


def test_notes_that_mean_an_early_end():
    """What readers say of files that end early is what V16 looks for."""
    from tracetui.analysis.findings.validity.events import CUT_SHORT

    sources = "".join(path.read_text() for path in (Path(__file__).parents[1] / "parsers").rglob("*.py"))
    assert not [words for words in CUT_SHORT if words not in sources]
    trace = Trace.empty(TraceInfo("chrome", "none"), Source(Path("x"), 0), (Note("missing", CUT_SHORT[0], 1),))
    fires("V16", facts(trace))


def test_opening_a_folder_keeps_the_manifest(tmp_path):
    assert open_path(steps_of(tmp_path, "a", 4).trace.source.path, cache=False).manifest is None


GPT_OF_CHROME = "gpt_small_ctx256.trace.json.gz"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"


def opened(name: str) -> Trace:
    return open_path(recorded(name)).main


def test_weights_before_the_first_step_are_setup_where_steps_are_not_known() -> None:
    """Half a second of initialisation, then 75 copies of weights, before anything computes; steps set it apart."""
    trace = opened(GPT_OF_CHROME)
    assert silent("V29", facts(trace))
    finding = fires("V29", facts(as_recorded(trace, keep_own=False)))
    assert finding.severity == "warning"
    assert finding.formula == "95.14 ms of 555.5 ms = 17.1 %"
    assert {each.label: each.value for each in finding.evidence}["copies to the GPU before it"] == 75
    assert "such as aten::normal_" in finding.evidence[3].label


@pytest.mark.parametrize(
    "name",
    ["ops/ops.trace.json.gz", "ops/ops.sqlite.gz", "nsys/graph_node.sqlite.gz", "small_vit_train.pt.trace.json.gz"],
)
def test_a_program_that_computes_at_once_has_no_setup(name: str) -> None:
    assert silent("V29", facts(as_recorded(opened(name), keep_own=False)))


@pytest.mark.parametrize("name", ["public/tl_sglang_decode.json.gz", "public/tl_vllm_piecewise.json.gz"])
def test_waiting_for_a_first_request_is_no_setup(name: str) -> None:
    assert silent("V29", facts(opened(name)))


def _started(name: str, category: str, *, copies: int = 1) -> Made:
    """400 µs of copies and fills, then 600 µs of a GEMM."""
    made = Made()
    made.host(category, name, 0, 90)
    for place in range(copies):
        made.launch("Memcpy HtoD (Pinned -> Device)", (100 + place, 101 + place), (110 + place, 111 + place),
                    api="cudaMemcpyAsync", kind="gpu_memcpy", bytes=4)  # fmt: skip
    made.launch(FILL, (200, 201), (210, 220))
    made.launch(HGEMM, (500, 501), (510, 1110))
    return made


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("aten::normal_", "cpu_op"),
        ("/usr/lib/python3/site-packages/torch/nn/init.py(486): kaiming_uniform_", "python_function"),
        ("load_model", "user_annotation"),
        ("cuModuleLoadDataEx", "cuda_driver"),
    ],
)
def test_what_shows_setup(tmp_path: Path, name: str, category: str) -> None:
    made = _started(name, category)
    if category == "cuda_driver":  # before any GPU work it is none of the analysed time
        assert silent("V29", made.facts(tmp_path))
        made.host(category, name, 250, 450)
    finding = fires("V29", made.facts(tmp_path))
    assert finding.severity == "critical"
    assert "40.0 %" in finding.title


def test_a_batch_copied_and_awaited_is_no_setup(tmp_path: Path) -> None:
    assert silent("V29", _started("read_input", "user_annotation").facts(tmp_path))
    assert fires("V29", _started("read_input", "user_annotation", copies=20).facts(tmp_path))
    found = before_computing(_started("read_input", "user_annotation").facts(tmp_path))
    assert found is not None
    assert (found.begin, found.end, found.copies, found.told) == (110_000, 510_000, 1, False)


def test_steps_set_setup_apart(tmp_path: Path) -> None:
    made = _started("aten::normal_", "cpu_op")
    made.step(1, 490, 1200)
    made.launch(ADD, (1120, 1121), (1130, 1150))
    assert silent("V29", made.facts(tmp_path))
