"""NVIDIA's own report files: exported by NVIDIA's tools where these are, here by scripts that stand in for them."""

from __future__ import annotations

import threading

import pytest
from sample_runs import recorded

from tracetui.parsers import Cancelled, TraceError, open_path

NCU = '"ID","Kernel Name","Block Size","Grid Size","Device","CC",{columns}\n'
RAW = (
    NCU.format(columns='"gpu__time_duration.sum"')
    + '"","","","","","","ns"\n"0","k","(1, 1, 1)","(2, 1, 1)","0","9.0","640"\n'
)
DETAILS = (
    NCU.format(
        columns='"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type",'
        '"Rule Description","Estimated Speedup Type","Estimated Speedup"'
    )
    + '"0","k","(1, 1, 1)","(2, 1, 1)","0","9.0","GPU Speed Of Light Throughput","Duration","ns","640"\n'
    + '"0","k","(1, 1, 1)","(2, 1, 1)","0","9.0","LaunchStats","","","","LaunchConfiguration","OPT",'
    '"Use more blocks","global","50"\n'
)


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"NVTX")
    return path


def test_an_nsys_report_is_exported_and_read(tool, report, monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    recording = recorded("nsys/graph_whole.sqlite.gz")
    tool("nsys", f'for word; do case "$word" in --output=*) gzip -dc {recording} > "${{word#--output=}}";; esac; done')
    run = open_path(report, cache=False)
    assert run.main.info.kind == "nsys"
    assert run.main.source.path == report
    assert run.main.device.height
    assert list(scratch.iterdir()) == []  # it held the environment of the profiled process


def test_an_ncu_report_has_the_metrics_of_one_page_and_the_rules_of_another(tool, tmp_path):
    (tmp_path / "raw").write_text(RAW)
    (tmp_path / "details").write_text(DETAILS)
    tool("ncu", f'for page; do :; done; cat "{tmp_path}/$page"')
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"NVR")
    trace = open_path(path, cache=False).main
    assert trace.device["duration"].to_list() == [640]
    assert trace.counters["kind"].to_list() == ["metric", "opt"]


def test_a_tool_that_fails_is_one_line(tool, report):
    tool("nsys", 'echo "some progress" >&2; echo "Unsupported file version" >&2; exit 3')
    with pytest.raises(TraceError, match=r"exit code 3: Unsupported file version") as refused:
        open_path(report, cache=False)
    assert "\n" not in str(refused.value)


def test_a_tool_that_writes_nothing_is_one_line(tool, report):
    tool("nsys", "exit 0")
    with pytest.raises(TraceError, match="wrote no export"):
        open_path(report, cache=False)


def test_waiting_for_a_tool_can_be_given_up(tool, report):
    tool("nsys", "exec sleep 60")
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        open_path(report, cache=False, cancel=cancel, progress=lambda _: cancel.set())
