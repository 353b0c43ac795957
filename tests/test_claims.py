"""What lies beside a recording is not believed: files that are none, and a run.json of another run."""

import gzip
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sample_runs import DATA, changeable

from tracetui.analysis.findings import config
from tracetui.analysis.findings.core.facts import Facts
from tracetui.analysis.findings.engine import find
from tracetui.analysis.ranks.files.store import Store
from tracetui.analysis.sweeps.reading import read_table
from tracetui.app.cli.main import main
from tracetui.app.settings import state
from tracetui.collectors.proving import add
from tracetui.parsers import Run, TraceError, open_path
from tracetui.parsers.runs import claims, manifest, samples
from tracetui.parsers.runs.comments import comments_on
from tracetui.parsers.runs.side_files import read_text

SAMPLES = Path(__file__).parent.parent / "samples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return changeable(SAMPLES / "vim_tiny_fp16", tmp_path / "run")


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> Run:
    """The run with its run.json changed."""
    file = folder / "run.json"
    said = json.loads(file.read_text())
    change(said)
    file.write_text(json.dumps(said))
    return open_path(folder)


ODD: dict[str, Callable[[Path], object]] = {
    "not a file": lambda path: os.mkfifo(path),
    "a link out of its folder": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "larger than": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 10 << 30),
}


@pytest.mark.parametrize("why", ODD)
def test_a_side_file_that_is_none_is_left_out_with_a_line(folder: Path, why: str) -> None:
    beside = ("run.json", "proofs.json", "comments.tracetui.jsonl")
    for name in (*beside, "samples.json"):
        (folder / name).unlink(missing_ok=True)
        ODD[why](folder / name)
        with pytest.raises(OSError, match=why):
            read_text(folder / name)
    run = open_path(folder)
    assert run.main.device.height
    assert run.main.clean_step_ns == ()
    for name in beside:
        (line,) = [line for line in run.warnings if name in line]
        assert why in line
    assert comments_on(run) == run.proofs == ()
    found, problem = samples.load(folder)
    assert found is None
    assert why in str(problem)


@pytest.mark.parametrize(("text", "why"), [("{", "damaged"), ("[]", "no tracetui.proofs/1"), ("{}", "no tracetui")])
def test_proofs_that_are_none_are_told(folder: Path, text: str, why: str) -> None:
    (folder / "proofs.json").write_text(text)
    (line,) = open_path(folder).warnings
    assert "proofs.json: left out, since it is" in line
    assert why in line


@pytest.mark.parametrize("why", list(ODD)[:2])
def test_tables_and_logs_are_read_only_if_they_are_files(tmp_path: Path, why: str) -> None:
    ODD[why](tmp_path / "table.csv")
    with pytest.raises(TraceError, match="not a file"):
        read_table(tmp_path / "table.csv")
    (tmp_path / "true.csv").write_text("batch,latency_ms\n1,2\n2,3\n")
    (tmp_path / "link.csv").symlink_to("true.csv")
    assert len(read_table(tmp_path / "link.csv").points) == 2


@pytest.mark.parametrize("why", ODD)
def test_what_stands_where_a_file_of_tracetui_s_own_should_is_no_file(tmp_path, monkeypatch, why) -> None:
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("TRACETUI_NO_STATE", raising=False)
    ODD[why](tmp_path / "settings.json")
    assert state.read("settings") == {}
    ODD[why](tmp_path / "job.tracetui-rank")
    assert Store(tmp_path).entries() == []
    ODD[why](tmp_path / ".tracetui.toml")
    assert any(why in problem for problem in config.load(tmp_path).problems) == (why == "larger than")
    ODD[why](tmp_path / "proofs.json")
    assert add(tmp_path, [{"options": {}, "command": ["true"]}]) == tmp_path / "proofs.json"
    assert len(json.loads((tmp_path / "proofs.json").read_text())["proofs"]) == 1


def test_brackets_without_end_are_damage(folder: Path) -> None:
    (folder / "run.json").write_text('{"schema":"tracetui.run/1","device":' + "[" * 3_000_000)
    run = open_path(folder)
    assert any("run.json is damaged" in line for line in run.warnings)


def other_gpu(said: dict[str, Any]) -> None:
    said["device"][0]["name"] = "NVIDIA A100-SXM4-80GB"


def lesser_gpu(said: dict[str, Any]) -> None:
    said["device"][0]["name"] = "NVIDIA H20"


def other_type(said: dict[str, Any]) -> None:
    said["workload"]["dtype"] = "bf16"


def longer(said: dict[str, Any]) -> None:
    steps = said["measurement"]["profiled_step_ns"]
    said["measurement"]["profiled_step_ns"] = [round(1.2 * ns) for ns in steps]


def shorter_than_the_gpu(said: dict[str, Any]) -> None:
    said["measurement"]["clean_step_ns"] = [ns // 20 for ns in said["measurement"]["clean_step_ns"]]


def longer_than_the_run(said: dict[str, Any]) -> None:
    said["measurement"]["clean_step_ns"][-1] = 10**12


def longer_than_host_and_gpu(said: dict[str, Any]) -> None:
    """What the host gave out in 20 ms, a GPU that works 2.4 ms does not take 400 for."""
    times = said["measurement"]
    times["clean_host_ns"] = times["clean_step_ns"]
    times["clean_step_ns"] = [20 * ns for ns in times["clean_step_ns"]]


def other_capability(said: dict[str, Any]) -> None:
    said["device"][0]["compute_capability"] = "8.0"


def other_sms(said: dict[str, Any]) -> None:
    said["device"][0]["sm_count"] = 108


def other_memory(said: dict[str, Any]) -> None:
    said["device"][0]["memory_bytes"] //= 2


def training(said: dict[str, Any]) -> None:
    said["workload"]["train"] = True


def fewer_steps(said: dict[str, Any]) -> None:
    said["measurement"].update(steps=2, profiled_step_ns=said["measurement"]["profiled_step_ns"][:2])


def negative(said: dict[str, Any]) -> None:
    said["measurement"]["clean_step_ns"][1] = -5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (negative, "it has a step of -5 ns"),
        (other_sms, "its GPU has SM count 108, the recorded one 132"),
        (other_memory, "its GPU has bytes of memory 75054940160, the recorded one 150109880320"),
        (training, "it trained, and no backward pass is recorded"),
        (fewer_steps, "it profiled 2 steps, the recording has 3"),
        (longer_than_host_and_gpu, "the host gives out its work in 19"),
        (other_capability, "its GPU has compute capability 8.0, the recorded one 9.0"),
        (other_gpu, "it ran on NVIDIA A100-SXM4-80GB, the recording is of NVIDIA H200"),
        (lesser_gpu, "it ran on NVIDIA H20, the recording is of NVIDIA H200"),
        (other_type, "it computes in bf16, the recorded products in Half"),
        (longer, "its 3 profiled steps take 1"),
        (shorter_than_the_gpu, "and the GPU alone works 2.4"),
        (longer_than_the_run, "its steps take 1e+06 ms together, and the whole run 1.569e+04 ms"),
    ],
)
def test_a_claim_that_the_recording_contradicts_is_not_used(folder, change, said) -> None:
    run = changed(folder, change)
    assert run.manifest is not None
    assert said in str(run.manifest.contradicted)
    assert run.main.clean_step_ns == ()
    assert run.manifest.measurement.clean_step_ns == ()


def test_a_contradicted_claim_is_told_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert open_path(folder).main.clean_step_ns
    changed(folder, other_type)
    assert main(["report", str(folder), "--format", "json", "--section", "findings"]) == 0
    (trace,) = json.loads(capsys.readouterr().out)["run"]["traces"]
    assert (trace["findings"][0]["id"], trace["findings"][0]["severity"]) == ("V31", "invalid")
    assert "it computes in bf16, the recorded products in Half" in trace["findings"][0]["title"]


def test_a_trace_of_no_steps_has_none_of_a_run_that_counted_them(tmp_path: Path) -> None:
    """A compiler's trace that lies beside the run.json of a model."""
    shutil.copy(SAMPLES / "vim_tiny" / "run.json", tmp_path)
    event = {"ph": "X", "name": "ExecuteCompiler", "ts": 0, "dur": 900, "pid": 1, "tid": 1}
    (tmp_path / "build.json").write_text(json.dumps({"traceEvents": [event]}))
    run = open_path(tmp_path, cache=False)
    assert run.manifest is not None
    assert run.manifest.contradicted == "it profiled 3 steps, the recording has none"
    assert run.main.clean_step_ns == ()
    found = [one.id for one in find(Facts(run)).found]
    assert found[0] == "V31"
    assert "V9" not in found


def test_a_recording_of_another_gpu_takes_nothing_from_the_others(tmp_path: Path) -> None:
    """Its own clean steps are not known, and the others keep theirs."""
    folder = changeable(SAMPLES / "vim_tiny", tmp_path / "run")
    (folder / "nsys.sqlite").unlink()
    shutil.copy(SAMPLES / "vim_tiny" / "nsys.sqlite", folder)
    with closing(sqlite3.connect(folder / "nsys.sqlite")) as database:
        database.execute("UPDATE TARGET_INFO_GPU SET name = 'NVIDIA A100-SXM4-80GB'")
        database.commit()
    run = open_path(folder)
    (stray,) = run.of_kind("nsys")
    assert run.manifest is not None
    assert run.manifest.contradicted is None
    assert run.main.clean_step_ns
    assert stray.clean_step_ns == ()


@pytest.mark.parametrize("name", ["H200", "NVIDIA H200 NVL", "NVIDIA"])
def test_what_varies_in_true_pairs_is_no_contradiction(folder: Path, name: str) -> None:
    def slightly(said: dict[str, Any]) -> None:
        said["device"][0].update(name=name, memory_bytes=150_754_820_096)  # as NVML has it
        said["measurement"]["profiled_step_ns"] = [ns + 900_000 for ns in said["measurement"]["profiled_step_ns"]]

    run = changed(folder, slightly)
    assert run.manifest is not None
    assert run.manifest.contradicted is None
    assert run.main.clean_step_ns


def test_a_queue_of_gpu_work_is_no_contradiction(folder: Path) -> None:
    """A step may end as much later than its host as the GPU has to do."""

    def ahead(said: dict[str, Any]) -> None:
        times = said["measurement"]
        times["clean_host_ns"] = [ns - 2_300_000 for ns in times["clean_step_ns"]]

    run = changed(folder, ahead)
    assert run.manifest is not None
    assert run.manifest.contradicted is None
    assert run.main.clean_step_ns


def test_recorded_steps_of_another_kind_than_most_are_no_contradiction(folder: Path) -> None:
    """Of steps of which few are long, the recorded ones may be the long ones."""

    def few_are_long(said: dict[str, Any]) -> None:
        steps = said["measurement"]["clean_step_ns"]
        said["measurement"]["clean_step_ns"] = [steps[0], *(ns // 20 for ns in steps[1:])]

    run = changed(folder, few_are_long)
    assert run.manifest is not None
    assert run.manifest.contradicted is None


def test_a_step_that_was_held_up_is_no_contradiction(folder: Path) -> None:
    """A busy machine stops a process for milliseconds between our mark and the end of the profiler's range."""

    def held_up(said: dict[str, Any]) -> None:
        said["measurement"]["profiled_step_ns"][-1] += 20_000_000

    run = changed(folder, held_up)
    assert run.manifest is not None
    assert run.manifest.contradicted is None


@pytest.mark.parametrize(("more_ms", "told"), [(20, False), (200, True)])
def test_a_single_step_that_was_held_up_is_no_contradiction(folder: Path, more_ms: int, told: bool) -> None:
    run = open_path(folder)
    assert run.manifest is not None
    trace = replace(run.main, steps=run.main.steps.head(1))
    lasted = int(trace.steps["duration"][0]) + more_ms * 1_000_000
    measurement = msgspec.structs.replace(run.manifest.measurement, profiled_step_ns=(lasted,), steps=1)
    said = claims._steps(msgspec.structs.replace(run.manifest, measurement=measurement), trace)
    assert (said is not None) is told


def test_the_profiler_s_start_in_the_first_step_s_range_is_no_contradiction(folder: Path) -> None:
    (file,) = folder.glob("trace*.json.gz")
    told = json.loads(gzip.decompress(file.read_bytes()))
    file.unlink()  # it is a link
    first = min(
        (event for event in told["traceEvents"] if "ProfilerStep" in event["name"]), key=lambda each: each["ts"]
    )
    first.update(ts=first["ts"] - 30_000, dur=first["dur"] + 30_000)
    file.write_bytes(gzip.compress(json.dumps(told).encode()))
    run = open_path(folder)
    assert run.manifest is not None
    assert run.manifest.contradicted is None


def test_no_true_pair_is_contradicted() -> None:
    files = [*DATA.rglob("run.json"), *SAMPLES.glob("*/run.json")]
    assert len(files) > 15
    for file in files:
        run = open_path(file.parent)
        assert run.manifest is None or run.manifest.contradicted is None, file


def test_a_file_can_not_say_that_it_is_contradicted(folder: Path) -> None:
    run = changed(folder, lambda said: said.update(contradicted="by itself"))
    assert run.manifest is not None
    assert run.manifest.contradicted is None
    assert manifest.load(folder / "nowhere") is None


def test_files_of_a_folder_that_are_equal_are_told_once(tmp_path: Path) -> None:
    names = ("a", "b", "c", "other", "size")
    texts = [json.dumps({"traceEvents": [_kernel(number)]}) for number in (1, 1, 1, 2, 10)]
    assert len(texts[0]) == len(texts[3]) < len(texts[4])
    for name, text in zip(names, texts, strict=True):
        (tmp_path / f"{name}.json").write_text(text)
    told = next(line for line in open_path(tmp_path, cache=False).warnings if "holds the same" in line)
    assert told.startswith(f"{tmp_path / 'b.json'}: holds the same as a.json, byte for byte, and 1 more too;")


def _kernel(number: int) -> dict[str, object]:
    place = {"device": 0, "stream": 7, "correlation": number}
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": place}
