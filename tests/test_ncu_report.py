"""Nsight Compute's own reports, read without ncu, against what NVIDIA's library reads of them."""

import gzip
import math
import random
from pathlib import Path

import polars as pl
import pytest
from sample_runs import recorded

from tracetui.app.cli.main import main
from tracetui.parsers import Trace, open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.ncu.frames import base_unit
from tracetui.parsers.ncu.native import unit_of
from tracetui.parsers.ncu.reader import read_ncu

HISTOGRAM, MATMULT = "formats/ncu_rep/histogram.ncu-rep", "formats/ncu_rep/matmult_h100.ncu-rep"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


def metric(trace: Trace, row: int, name: str) -> float:
    return trace.counters.filter(device_row=row).filter(pl.col("metric").cast(pl.String) == name)["value"].item()


def test_launches_and_their_metrics() -> None:
    trace = open_path(recorded(HISTOGRAM), cache=False).main
    assert (trace.info.kind, trace.info.tool_version) == ("ncu", "2022.3.0.0 (build 31729285) (public-release)")
    rows = trace.device.select(pl.col("name").cast(pl.String), "duration", "registers", "grid", "block").rows()
    assert rows == [
        ("histogram_kernel(unsigned int *, unsigned int *, unsigned int, unsigned int)", 79_648, 16, [1024, 1, 1],
         [256, 1, 1]),
        ("convert_kernel(unsigned int *, unsigned int)", 5_984, 16, [1024, 1, 1], [256, 1, 1]),
    ]  # fmt: skip
    assert [round(metric(trace, row, SM), 4) for row in (0, 1)] == [50.8656, 12.5252]
    assert [round(metric(trace, row, OCCUPANCY), 4) for row in (0, 1)] == [91.9892, 53.0579]
    assert metric(trace, 0, "launch__waves_per_multiprocessor") == 6.4
    (gpu,) = trace.info.devices
    assert (gpu.name, gpu.compute_capability, gpu.sm_count) == ("Tesla T4", "7.5", 40)
    assert trace.info.processes == ((1_553_047, "histogram"),)  # without the folder it was started from


def test_rules_say_what_their_section_says() -> None:
    trace = open_path(recorded(MATMULT), cache=False).main
    assert trace.device["duration"].to_list() == [4_832, 4_832, 4_896, 1_941_696]
    assert [round(metric(trace, 3, name), 4) for name in (SM, MEMORY, OCCUPANCY)] == [38.4825, 78.7074, 24.9657]
    said = trace.counters.filter(device_row=3).filter(pl.col("kind") != "metric")
    rows = said.select(*(pl.col(name).cast(pl.String) for name in ("kind", "section", "metric", "unit")), "value")
    assert rows.rows() == [
        ("opt", "SpeedOfLight", "SOLBottleneck", None, None),
        ("opt", "ComputeWorkloadAnalysis", "HighPipeUtilization", "local", 87.60215795278768),
        ("opt", "Occupancy", "TheoreticalOccupancy", "local", 75.0),
    ]
    assert "Check the Launch Statistics and Scheduler Statistics sections" in said["text"][1]


@pytest.mark.parametrize("name", [HISTOGRAM, MATMULT])
def test_every_value_is_nvidias(name: str) -> None:
    library = pytest.importorskip("ncu_report")
    path = recorded(name)
    trace = read_ncu(path)
    launches = [launch for part in library.load_report(str(path)) for launch in part]
    assert len(launches) == trace.device.height
    compared = 0
    for row, launch in enumerate(launches):
        own = trace.counters.filter(device_row=row, kind="metric")
        values = dict(zip(own["metric"].cast(pl.String), own.select("value", "text", "unit").rows(), strict=True))
        for spelled in launch:
            found = launch[spelled]
            if spelled.startswith("breakdown:") or not found.has_value():
                assert spelled not in values
                continue
            value, text, unit = values.pop(spelled)
            theirs = found.value()
            assert theirs == (text if isinstance(theirs, str) else value), spelled
            compared += 1
            if "sass_l1tex_t_requests" not in spelled:  # which nothing in its name tells from others
                assert base_unit(found.unit() or "")[0] == (unit or ""), spelled
        assert not values
    assert compared > 400


def test_a_report_may_be_gzipped_and_lie_beside_a_page_of_it(tmp_path: Path) -> None:
    content = recorded(HISTOGRAM).read_bytes()
    report, page = tmp_path / "run.ncu-rep.gz", tmp_path / "page.csv"
    report.write_bytes(gzip.compress(content))
    header = '"ID","Kernel Name","Block Size","Grid Size","Device","gpu__time_duration.sum"\n"","","","","","us"\n'
    rows = '"0","histogram_kernel","(256, 1, 1)","(1024, 1, 1)","0","79.65"\n"1","convert_kernel","(256, 1, 1)",'
    page.write_text(header + rows + '"(1024, 1, 1)","0","5.98"\n')
    run = open_path(report, page, cache=False)
    assert [trace.source.path.name for trace in run.traces] == ["run.ncu-rep.gz"]
    assert run.main.device["duration"].to_list() == [79_648, 5_984]


def test_of_a_cut_report_the_whole_launches_are_read(tmp_path: Path) -> None:
    content = recorded(MATMULT).read_bytes()
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(content[:-100])
    trace = open_path(path, cache=False).main
    assert trace.device.height == 3
    assert trace.source.partial
    assert ("missing", "the rest of the report, which is cut: 3 whole launches") in [
        (note.kind, note.reason) for note in trace.notes
    ]
    path.write_bytes(content[:2_000])
    with pytest.raises(TraceError, match="an Nsight Compute report without a whole launch"):
        open_path(path, cache=False)
    path.write_bytes(content[5:])
    with pytest.raises(TraceError, match="an Nsight Compute report without its head"):
        open_path(path, cache=False)


def test_damage_is_one_line_or_fewer_launches(tmp_path: Path) -> None:
    content = recorded(HISTOGRAM).read_bytes()
    path = tmp_path / "damaged.ncu-rep"
    chance = random.Random(7)
    read = 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(chance.choice((1, 3, 30))):
            damaged[chance.randrange(4, len(damaged))] = chance.choice((0, 255, chance.randrange(256)))
        path.write_bytes(damaged)
        try:
            trace = read_ncu(path)
        except TraceError as problem:
            assert "\n" not in str(problem)  # noqa: PT017  both ends are allowed
        else:
            read += 1
            assert trace.device.height <= 2
            assert all(value is None or math.isfinite(value) for value in trace.counters["value"])
    assert read > 50


def test_no_copy_is_made_of_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scrub", str(recorded(HISTOGRAM)), "--output", str(tmp_path / "copy.ncu-rep")]) != 0
    assert "scrub what `ncu --csv --page raw --import` makes of it" in capsys.readouterr().err
    assert not (tmp_path / "copy.ncu-rep").exists()


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("gpu__time_duration.sum", "ns"),
        ("dram__bytes.sum.per_second", "byte/s"),
        ("dram__bytes_read.sum.pct_of_peak_sustained_elapsed", "%"),
        ("sm__cycles_elapsed.avg.per_second", "hz"),
        ("sm__inst_executed.avg.per_cycle_active", "inst/cycle"),
        ("launch__shared_mem_per_block_static", "byte/block"),
        ("launch__grid_size", ""),
    ],
)
def test_the_name_of_a_metric_tells_its_unit(name: str, unit: str) -> None:
    assert unit_of(name) == unit
