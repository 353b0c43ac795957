"""Counters of kernels that Kineto wrote in place of their times (`profiler_metrics`)."""

from __future__ import annotations

import gzip
import json

import polars as pl
from as_json import report
from chrome_file import ChromeFile
from sample_runs import recorded

from tracetui.analysis.counters.counters import launch_metrics, metric_table
from tracetui.parsers import open_path
from tracetui.parsers.chrome.devices.counted import split_counted
from tracetui.parsers.chrome.reader import read_chrome

CUPTI = "public/hta_cupti.json.gz"


def test_counters_of_a_recording_are_those_of_its_kernels() -> None:
    events = json.loads(gzip.decompress(recorded(CUPTI).read_bytes()))["traceEvents"]
    ranges = [event for event in events if event.get("cat") == "cuda_profiler_range"]
    run = open_path(recorded(CUPTI), cache=False)
    timed, counted = run.traces
    assert not timed.device.height
    assert not timed.counters.height
    assert (counted.device.height, counted.device["duration"].null_count()) == (77, 77)
    names = counted.device["name"].cast(pl.String).to_list()
    assert names == [event["name"] for event in sorted(ranges, key=lambda event: event["ts"])]
    sums = {metric: sum(event["args"][metric] for event in ranges) for metric in ranges[0]["args"]}
    table = metric_table(counted)
    assert dict(table.select("metric", pl.col("mean_value") * pl.col("launches")).iter_rows()) == sums
    first = launch_metrics(counted, 0)
    assert first.filter(pl.col("metric").str.contains("ffma"))["value"].to_list() == [38731776]
    found = report(run, sections=("counters",))["run"]["traces"][1]
    assert sum(row["launches"] for row in found["counters"]) == 77


def test_counted_kernels_belong_to_their_launches() -> None:
    """As many launches as kernels: the calls are in the kernels' order, so their operators are known."""
    trace = read_chrome(recorded(CUPTI))
    operators = trace.host["name"].cast(pl.String).gather(trace.device["operator"])
    assert trace.device["launch"].is_sorted()
    assert operators.null_count() == 0
    assert operators[0] == "aten::uniform_"
    names = trace.device["name"].cast(pl.String)
    assert set(operators.filter(names.str.contains("max_pool"))) == {"aten::max_pool2d_with_indices"}


def test_a_range_that_no_launch_matches_is_still_counted(tmp_path) -> None:
    file = ChromeFile()
    file.launch("gemm", call=(10, 12), kernel=(20, 60))
    for number in range(3):
        file.event("cuda_profiler_range", "gemm", (100 + number, 200), pid=0, tid=0, **{"sm__cycles.sum": number})
    file.events.append({"ph": "C", "name": "power", "pid": 0, "tid": 0, "ts": 5, "args": {"W": 300}})
    timed, counted = split_counted(read_chrome(file.write(tmp_path / "a.json")))
    assert timed.device["duration"].to_list() == [40_000]
    assert timed.device["launch"].null_count() == 0
    assert timed.counters["value"].to_list() == [300]
    assert counted.counters.select("device_row", "value").rows() == [(0, 0), (1, 1), (2, 2)]
    assert split_counted(timed) == (timed,)
