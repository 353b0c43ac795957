"""May two runs be compared: what run.json and the recordings say differs, and what that means."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chrome_file import ChromeFile
from sweep_maker import manifest

from tracetui.analysis.compare.comparable import Comparable, Difference, comparable, element_type
from tracetui.analysis.findings import engine
from tracetui.analysis.findings.catalogue import all_rules
from tracetui.analysis.findings.core.facts import Facts, Pair
from tracetui.app.cli.main import main
from tracetui.parsers import Run, Source, Trace, TraceInfo
from tracetui.parsers.runs.manifest import RunManifest, parse

Recording = Callable[[str], Trace]

FP32 = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
FP16 = "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz"
GPT = "chrome/gpt_small_ctx256.trace.json.gz"
NO_WORKERS = "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz"
WORKERS = "chrome/kineto_samples/resnet50_num_workers_4.pt.trace.json.gz"
DEIT = "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"
ALIKE = Comparable("comparable", [])


def fields(found: Comparable, *, key: str = "") -> list[str]:
    return [row.field for row in found.differences if not key or getattr(row, key)]


def test_fp32_against_fp16_is_explained_by_the_type(recording: Recording) -> None:
    found = comparable(recording(FP32), recording(FP16))
    assert found.verdict == "explained"
    assert found.differences == [Difference("dtype", "fp32", "fp16", intended=True)]


def test_a_pair_that_differs_in_nothing_known(recording: Recording) -> None:
    assert comparable(recording(NO_WORKERS), recording(WORKERS)) == ALIKE


def test_another_gpu(recording: Recording) -> None:
    found = comparable(recording(FP32), recording(NO_WORKERS))
    assert found.verdict == "not_comparable"
    assert fields(found, key="matters") == ["gpu", "SMs"]  # that one lacks settings says nothing of them


def test_profiler_settings_and_steps(recording: Recording) -> None:
    found = comparable(recording(FP32), recording(GPT))
    assert found.verdict == "not_comparable"
    by_field = {row.field: (row.a, row.b) for row in found.differences}
    assert by_field == {"steps": (3, 2), "with_flops": ("0", "1"), "with_stack": ("1", "0")}


def test_how_nsys_recorded_graphs(recording: Recording) -> None:
    found = comparable(recording("nsys/graph_whole.sqlite.gz"), recording("nsys/graph_node.sqlite.gz"))
    assert found.verdict == "not_comparable"
    assert sorted(fields(found)) == ["CUDA graph trace", "steps"]


@pytest.mark.parametrize(
    ("name", "told"),
    [(FP32, "fp32"), (FP16, "fp16"), (DEIT, "bf16"), (NO_WORKERS, "fp32"), ("nsys/vim_tiny_fp32_bs4.sqlite.gz", "fp32"),
     ("nsys/graph_whole.sqlite.gz", None)],
)  # fmt: skip
def test_the_type_is_told_from_operators_or_kernels(recording: Recording, name: str, told: str | None) -> None:
    assert element_type(recording(name)) == told


# --- run.json

POWER = {
    "sources": ["sysfs"],
    "mode_id": 1,
    "mode_name": "25W",
    "gpus": [{"index": 0, "max_clock_hz": 918_000_000, "tpc_pg_mask": 0, "power_limit_mw": 25_000}],
    "emc": {"cap_hz": 3_199_000_000},
    "cpu": {"max_clock_hz": 1_728_000_000, "online": 6, "governor": "schedutil"},
}


def sides(*changes: tuple[str, Any]) -> tuple[RunManifest, RunManifest]:
    """Two manifests, of which the second has other values at these paths."""
    a = manifest(requested_batch=4, batch=4, options={"batch": 4, "keep": 1.0}, threads=8)
    a["power"] = {"before": deepcopy(POWER), "during": []}
    a["software"] = {"torch": "2.11", "driver": "580"}
    a["identity"] = {"git_sha": "a" * 40, "host": "box"}
    a["workload"]["modes"] = {"anomaly": False, "gc_frozen": 1}
    b = deepcopy(a)
    for path, value in changes:
        *parents, last = path.split(".")
        place: Any = b
        for part in parents:
            place = place[int(part)] if part.isdecimal() else place.setdefault(part, {})
        place[last] = value
    first, second = parse(a), parse(b)
    assert first is not None
    assert second is not None
    return first, second


@pytest.fixture
def bare(tmp_path: Path) -> Trace:
    return Trace.empty(TraceInfo("chrome", "PyTorch Kineto"), Source(tmp_path, 0))


def test_equal_runs(bare: Trace) -> None:
    assert comparable(bare, bare, manifests=sides()) == ALIKE


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("device.0.name", "NVIDIA A100", "gpu"),
        ("device.0.sm_count", 114, "SMs"),
        ("workload.device", "cpu", "device"),
        ("power.before.mode_name", "15W", "power mode"),
        ("power.before.gpus.0.max_clock_hz", 612_000_000, "SM clock cap, Hz"),
        ("power.before.gpus.0.tpc_pg_mask", 2, "TPC mask"),
        ("power.before.gpus.0.power_limit_mw", 15_000, "power limit, mW"),
        ("power.before.emc.cap_hz", 2_133_000_000, "memory clock cap (EMC), Hz"),
        ("power.before.cpu.max_clock_hz", 1_500_000_000, "CPU clock cap, Hz"),
        ("power.before.cpu.online", 4, "CPU cores"),
        ("measurement.flags", {"with_stack": True, "profile_memory": False}, "with_stack"),
        ("workload.backend", "reference", "backend"),
        ("workload.batch", 120, "batch really seen"),
        ("workload.environment", {"CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING"),
    ],
)
def test_conditions_make_runs_not_comparable(bare: Trace, path: str, value: object, field: str) -> None:
    found = comparable(bare, bare, manifests=sides((path, value)))
    assert found.verdict == "not_comparable"
    assert fields(found, key="matters") == [field]


def test_a_run_of_several_tools_compares_by_the_recordings(bare: Trace) -> None:
    """Each tool runs in a phase of its own: what else was recorded does not touch a trace."""
    found = comparable(bare, bare, manifests=sides(("measurement.tool", "all")))
    assert found == ALIKE


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("workload.dtype", "fp16", "dtype"),
        ("workload.options", {"batch": 4, "keep": 0.1}, "keep"),
        ("workload.compile", "default", "compile"),
        ("workload.tf32_matmul", True, None),  # the first does not say
        ("workload.model", "other", "model"),
        ("workload.modes", {"anomaly": True, "gc_frozen": 2}, "anomaly"),
        ("identity.git_sha", "b" * 40, "code"),
        ("identity.git_diff_sha256", "c" * 64, "uncommitted changes"),
        ("software.torch", "2.13", "torch"),
        ("software.driver", "590", "driver"),
    ],
)
def test_what_somebody_chose_explains(bare: Trace, path: str, value: object, field: str | None) -> None:
    found = comparable(bare, bare, manifests=sides((path, value)))
    assert fields(found) == ([field] if field else [])
    assert found.verdict == ("explained" if field else "comparable")


def test_another_batch_that_was_asked_for_is_other_work(bare: Trace) -> None:
    changed = sides(("workload.requested_batch", 8), ("workload.batch", 8), ("workload.options.batch", 8))
    found = comparable(bare, bare, manifests=changed)
    assert (found.verdict, fields(found, key="work")) == ("other_work", ["batch"])


def test_conditions_stand_before_what_was_chosen(bare: Trace) -> None:
    found = comparable(bare, bare, manifests=sides(("workload.dtype", "fp16"), ("power.before.mode_name", "15W")))
    assert fields(found) == ["power mode", "dtype"]


def test_for_the_record_only(bare: Trace) -> None:
    found = comparable(bare, bare, manifests=sides(("identity.host", "other"), ("measurement.steps", 5)))
    assert (found.verdict, fields(found)) == ("comparable", ["machine", "profiled steps"])


def samples(clock: int, load: float = 90.0) -> list[dict[str, Any]]:
    return [{"gpus": [{"index": 0, "clock_hz": clock, "load_percent": load}]}] * 4


@pytest.mark.parametrize(
    ("ours", "theirs", "differs"),
    [
        (samples(900_000_000), samples(612_000_000), True),
        (samples(900_000_000), samples(880_000_000), False),  # within the tolerance
        (samples(900_000_000), samples(100_000_000, load=0.0), False),  # the GPU was idle in these
        (samples(900_000_000), samples(612_000_000)[:2], False),  # too few
    ],
)
def test_the_clock_under_load(bare: Trace, ours: object, theirs: object, differs: bool) -> None:
    _, second = sides(("power.during", theirs))
    _, first = sides(("power.during", ours))
    found = comparable(bare, bare, manifests=(first, second))
    assert (fields(found) == ["SM clock during the run, Hz"]) is differs


def test_the_gpu_that_was_used_counts(bare: Trace) -> None:
    one = {"index": 0, "name": "A"}
    a = manifest(device="cuda:1")
    b = deepcopy(a)
    a["device"], b["device"] = [one, {"index": 1, "name": "B"}], [{"index": 0, "name": "X"}, {"index": 1, "name": "B"}]
    assert fields(comparable(bare, bare, manifests=(parse(a), parse(b)))) == []
    b["workload"]["device"] = "cuda:0"  # an equal GPU at another place would be none, this is another one
    assert fields(comparable(bare, bare, manifests=(parse(a), parse(b)))) == ["gpu"]


def test_one_manifest_alone_says_nothing(bare: Trace) -> None:
    assert comparable(bare, bare, manifests=(sides()[0], None)) == ALIKE
    empty = parse({"schema": "tracetui.run/1"})
    assert comparable(bare, bare, manifests=(sides()[0], empty)) == ALIKE


def test_what_a_type_implies_is_no_change_of_its_own(bare: Trace) -> None:
    changes = (("workload.dtype", "fp16"), ("workload.autocast", True), ("workload.tf32_cudnn", True))
    found = comparable(bare, bare, manifests=sides(*changes))
    assert found.verdict == "explained"
    assert fields(found, key="intended") == ["dtype"]


# --- other work


def at_batch(trace: Trace, factor: int) -> Trace:
    """As if each kernel had been launched for so many times as many samples."""
    grid = pl.concat_list(pl.col("grid").arr.get(0) * factor, *(pl.col("grid").arr.get(n) for n in (1, 2)))
    grid = grid.list.to_array(3).cast(trace.device["grid"].dtype)
    return replace(trace, device=trace.device.with_columns(grid=grid, duration=pl.col("duration") * factor))


def without_shapes(trace: Trace) -> Trace:
    return replace(trace, host=trace.host.with_columns(input_shapes=pl.lit(None, trace.host["input_shapes"].dtype)))


def test_another_batch_is_seen_in_the_shapes_of_the_input(recording: Recording) -> None:
    ours = recording(FP32)
    shapes = ours.host["input_shapes"].cast(pl.String).str.replace_all("[[4,", "[[64,", literal=True)
    theirs = replace(ours, host=ours.host.with_columns(shapes.cast(pl.Categorical).alias("input_shapes")))
    found = comparable(ours, theirs)
    assert found.verdict == "other_work"
    (row,) = (row for row in found.differences if row.work)
    assert (row.field, row.a, row.b) == ("batch", 4, 64)
    assert comparable(theirs, theirs) == ALIKE


def test_another_size_is_seen_in_the_launches_where_shapes_are_not(recording: Recording) -> None:
    ours = without_shapes(recording(FP32))
    found = comparable(ours, at_batch(ours, 16))
    assert found.verdict == "other_work"
    (row,) = (row for row in found.differences if row.work)
    assert row.field.startswith("grid of ")
    # runs of one program: with and without loader processes, and as two tools recorded it
    assert not fields(comparable(recording(NO_WORKERS), recording(WORKERS)), key="work")
    assert not fields(comparable(ours, ours), key="work")


def test_runs_that_did_other_work_are_not_judged(recording: Recording) -> None:
    ours = without_shapes(recording(FP32))
    a, b = (Facts(Run(trace.source.path, (trace,))) for trace in (ours, at_batch(ours, 16)))
    found = engine.find(Pair(a, b), rules=all_rules("pair"))
    assert [each.id for each in found.abstained if each.id == "D1"] == ["D1"]
    other_work = next(each for each in found.found if each.id == "V14")
    assert other_work.title.startswith("The runs did other work: they differ in grid of ")
    assert all(each.severity in ("info", "warning") for each in found.found)


def test_a_gate_does_not_judge_other_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = []
    for batch in (4, 64):
        file = ChromeFile()
        for step in range(3):
            at = 10_000.0 * step
            file.step(step, at, at + 9_000)
            file.operator("aten::conv2d", at + 10, at + 50, [(batch, 3, 8, 8), (4, 3, 2, 2), (4,)])
            file.launch(
                "k", (at + 20, at + 25), (at + 30, at + 30 + 100 * batch), grid=[batch, 1, 1], block=[128, 1, 1]
            )
        paths.append(file.write(tmp_path / f"b{batch}.json"))
    assert main(["diff", *map(str, paths), "--no-cache", "--fail-on", "regression:5%"]) == 4
    out, err = capsys.readouterr()
    assert "OTHER WORK" in out
    assert "Per sample the median step takes" in out
    assert "not judged: the runs did other work (batch: A 4, B 64)" in err
    assert main(["diff", str(paths[0]), str(paths[0]), "--no-cache", "--fail-on", "regression:5%"]) == 0
