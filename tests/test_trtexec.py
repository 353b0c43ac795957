"""What trtexec says of an engine, against the sums of its files."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from as_json import report
from laid_out import report_text
from sample_runs import recorded
from tui_pilot import opened

from tracetui.parsers import open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.names.kernel_names import category, short_name

PARTS = ("profile", "layers", "times")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in PARTS:
        shutil.copy(recorded(f"formats/trtexec/mobilenet.qat.{part}.json"), tmp_path)
    return tmp_path


def test_files_of_one_engine_are_one_recording(folder: Path) -> None:
    run = open_path(folder, cache=False)
    assert (len(run.traces), run.others) == (1, ())
    trace = run.main
    assert trace.device.height == 85
    assert trace.steps.rows() == [(0, "mean of 4,216 inferences", 0, 647_062)]
    assert trace.device["duration"].sum() == 647_062
    longest = trace.device.sort("duration").row(-1, named=True)
    assert longest["name"] == "features.16.conv.2.weight + QuantizeLinear_771 + Conv_775 + Add_777"
    assert abs(longest["duration"] - 17_393.3) < 1
    kinds = trace.device["scope"].cast(pl.String).str.split("/").list.first().value_counts()
    assert dict(kinds.rows())["CaskConvolution"] == 34
    assert dict(kinds.rows())["Reformat"] == 12
    assert set(trace.device["operation"].cast(pl.String)) >= {"CaskConvolution INT8", "Reformat FP32"}
    said = dict(trace.info.captured)
    assert said["inferences profiled"] == "4216"
    assert said["mean inference"] == "0.647062 ms"
    assert said["reformats"] == "13 layers, 9.6347 % of the inference"
    assert (said["median compute"], said["longest compute"]) == ("0.448342 ms", "0.921535 ms")
    assert np.median(trace.clean_step_ns) == pytest.approx(448_342, abs=1)


def test_the_page_s_step_is_the_one_without_the_profiler(folder: Path) -> None:
    """Timing each layer takes time: what inferences took without that is the base of all gains."""
    whole = report(open_path(folder, cache=False))
    trace = whole["run"]["traces"][0]
    step = trace["overview"]["step"]
    assert (step["of"], step["by_replay"], step["us"]) == ("clean", False, pytest.approx(448.3, abs=0.1))
    assert step["categories"]["kernel"]["us"] == pytest.approx(448.3, abs=0.1)
    reformats = next(row for row in trace["findings"] if row["id"] == "F11")
    assert 100 * reformats["impact_us"] / reformats["ceiling_percent"] == pytest.approx(448.3, abs=0.1)
    text = report_text(whole)
    assert text.count("448.3 µs") > text.count("647.1 µs") == 2
    assert "As recorded: 647.1 µs" in text
    assert "replay" not in text


def test_times_alone_are_a_step_for_each_inference(tmp_path: Path) -> None:
    shutil.copy(recorded("formats/trtexec/mobilenet.qat.times.json"), tmp_path / "times.json")
    trace = open_path(tmp_path / "times.json", cache=False).main
    assert (trace.steps.height, trace.device.height) == (600, 600)
    assert trace.device["duration"].max() == 921_535
    assert trace.clean_step_ns == ()


def test_layers_alone_have_no_times(tmp_path: Path) -> None:
    shutil.copy(recorded("formats/trtexec/mobilenet.qat.layers.json"), tmp_path)
    with pytest.raises(TraceError, match="without their times; run trtexec with --exportProfile"):
        open_path(tmp_path, cache=False)


def test_older_times_copies_and_odd_entries(tmp_path: Path) -> None:
    times = [
        {"startInMs": 1.0, "inMs": 0.25, "computeMs": 2.0, "startOutMs": 3.25, "outMs": 0.5, "latencyMs": 2.75},
        {"startInMs": 5.0, "inMs": 0.25, "computeMs": 2.5, "startOutMs": 7.75, "outMs": 0.5, "latencyMs": 3.25},
        {"computeMs": "fast"},
        7,
    ]
    (tmp_path / "t.times.json").write_text(json.dumps(times))
    trace = open_path(tmp_path / "t.times.json", cache=False).main
    assert trace.device.group_by(pl.col("kind").cast(pl.String)).agg(pl.col("duration").sum()).sort("kind").rows() == [
        ("kernel", 4_500_000),
        ("memcpy", 1_500_000),
    ]
    assert [(note.kind, note.count) for note in trace.notes] == [("skipped", 2)]


def test_layers_on_the_dla_are_told(tmp_path: Path) -> None:
    profile = [
        {"count": 10},
        {"name": "{ForeignNode[conv1...conv9]}", "timeMs": 30.0, "averageMs": 3.0, "percentage": 75.0},
        {"name": "softmax", "timeMs": 10.0, "averageMs": 1.0, "percentage": 25.0},
    ]
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    trace = open_path(tmp_path / "profile.json", cache=False).main
    assert dict(trace.info.captured)["on DLA"] == "1 layers, 75.0000 % of the inference"
    assert trace.device["scope"].cast(pl.String).to_list() == ["DLA", "layer"]


def test_a_damaged_part_beside_is_told_and_a_damaged_file_is_one_line(folder: Path) -> None:
    times = folder / "mobilenet.qat.times.json"
    times.write_bytes(times.read_bytes()[:1_000])
    trace = open_path(folder, cache=False).main
    assert trace.clean_step_ns == ()
    assert [note.reason for note in trace.notes] == ["mobilenet.qat.times.json, which can't be read"]
    with pytest.raises(TraceError, match="JSON of trtexec that can't be read"):
        open_path(times, cache=False)


def test_a_trace_that_is_called_like_a_part_stays_a_recording_of_its_own(folder: Path) -> None:
    (folder / "mobilenet.qat.graph.json").write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}')
    run = open_path(folder, cache=False)
    assert {trace.info.kind for trace in run.traces} | {"chrome" for _ in run.others} == {"trtexec", "chrome"}


def test_text_that_is_no_utf8_is_read_around(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_bytes(b'[{"count": 2}, {"name": "a\xff", "timeMs": 2.0, "averageMs": 1.0}]')
    assert open_path(tmp_path / "profile.json", cache=False).main.device["duration"].to_list() == [1_000_000]


def test_layers_that_were_fused_are_called_by_all_of_them() -> None:
    assert short_name("features.0.weight + Conv_12 + PWN(Clip_16)") == "features.0.weight + Conv_12 + PWN(Clip_16)"


async def test_the_findings_of_layers_that_no_host_event_launched_have_their_places():
    async with opened(recorded("formats/trtexec"), tab="findings", cache=False) as (app, _):
        assert app.view.table.height_of_view


def test_beside_a_recording_of_another_engine_it_is_said(folder: Path) -> None:
    shutil.copy(recorded("nsys/vim_tiny_fp32_bs4.sqlite.gz"), folder / "run.sqlite.gz")
    (warning,) = open_path(folder, cache=False).warnings
    assert "none of its 85 layers is a range of run.sqlite.gz; another engine" in warning


def test_a_reformat_is_a_copy_whatever_layer_it_names() -> None:
    assert category("Reformatting CopyNode for Output Tensor 0 to features.2.conv.2.weight + Conv_94") == "copy"
