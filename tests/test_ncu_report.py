"""Nsight Compute's own reports, read without ncu, against what NVIDIA's library reads of them."""

import gzip
import math
import random
import struct
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sample_runs import recorded

from tracetui.analysis.counters.source_lines import source_lines
from tracetui.app.cli.main import main
from tracetui.parsers import Trace, open_path
from tracetui.parsers.errors import TraceError
from tracetui.parsers.ncu import native
from tracetui.parsers.ncu.cubin import lines_of
from tracetui.parsers.ncu.frames import NVTX_SECTION, base_unit
from tracetui.parsers.ncu.native import unit_of
from tracetui.parsers.ncu.reader import read_ncu
from tracetui.parsers.wire import Damaged, fields

HISTOGRAM, MATMULT = "formats/ncu_rep/histogram.ncu-rep", "formats/ncu_rep/matmult_h100.ncu-rep"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"


PAGES = (".ncu-rep", "_raw.csv", "_source.csv")


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


def test_a_recorded_report_says_what_ncus_pages_of_it_say() -> None:
    """Recorded with SourceCounters, the program's lines and NVTX; its pages were printed by ncu."""
    own, raw, lines = (open_path(recorded(f"ncu/kernels{end}.gz"), cache=False).main for end in PAGES)
    metrics = [
        trace.counters.filter(kind="metric").select("device_row", pl.col("metric").cast(pl.String), "value", "text")
        for trace in (own, raw)
    ]
    both = metrics[0].join(metrics[1], on=["device_row", "metric"], suffix="_printed")
    assert both.drop_nulls("value").height == 8_849
    assert both.filter(pl.col("text") != pl.col("text_printed")).height == 0
    # a page has two decimals, of thousands or more where a value is large
    far = both.filter((pl.col("value") - pl.col("value_printed")).abs() > 0.00501 * pl.col("value").abs().clip(1.0))
    assert far.height == 0
    assert_frame_equal(source_lines(own), source_lines(lines))
    assert source_lines(own).filter(place="kernels.cu:15").select("sectors_per_request", "source").row(0) == (
        32.0, "y[j] = x[j] * 2.0f;"
    )  # fmt: skip
    around = own.counters.filter(pl.col("section").cast(pl.String) == NVTX_SECTION)["text"].to_list()
    assert around == ["streaming", "streaming", "awkward", "awkward"]


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


# --- source lines and NVTX, which no report at hand has: they are put into real ones, and NVIDIA's library reads them


def message(*parts: tuple[int, "int | str | bytes"]) -> bytes:
    """The wire format of these fields."""

    def varint(value: int) -> bytes:
        return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])

    found = b""
    for number, value in parts:
        if isinstance(value, int):
            found += varint(number << 3) + varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            found += varint(number << 3 | 2) + varint(len(content)) + content
    return found


def with_more(path: Path, metrics: dict[str, dict[int, int]], nvtx: bytes = b"", source: bytes = b"") -> bytes:
    """The report with metrics of its last launch at addresses, its ranges, and the text of its source files."""
    data = path.read_bytes()
    blocks = list(native._blocks(data))
    made, known = data[: 8 + int.from_bytes(data[4:8], "little")], 0
    for place, (header, begin, end) in enumerate(blocks):
        parts = [(number, part if isinstance(part, int) else data[slice(*part)]) for number, part in header]
        known += sum(sum(1 for _ in fields(part, 0, len(part))) for number, part in parts if number == 4)
        entries = []
        while begin < end:
            (at, begin), _ = native._sized(data, begin, end)
            entries.append(data[at:begin])
        if dict(parts)[1] and source:
            entries[0] += message((8, source))
        if place == len(blocks) - 1:
            parts.append((4, message(*((1, name) for name in metrics))))
            for number, counted in enumerate(metrics.values()):
                instances = [
                    (3, message((1, message((5, pc))), (2, message((5, value))))) for pc, value in counted.items()
                ]
                whole = message((5, sum(counted.values())))
                entries[-1] += message((13, message((1, known + number), (2, whole), *instances)))
            entries[-1] += message((21, nvtx)) if nvtx else b""
        payload = b"".join(struct.pack("<I", len(entry)) + entry for entry in entries)
        head = message(*((number, len(payload) if number == 5 else part) for number, part in parts))
        made += struct.pack("<I", len(head)) + head + payload
    return made


STALLS = "smsp__pcsamp_warps_issue_stalled_"
LONG, SELECTED, NOT_ISSUED = (STALLS + name for name in ("long_scoreboard", "selected", "long_scoreboard_not_issued"))
SECTORS = "memory_l2_theoretical_sectors_global"


@pytest.mark.parametrize(("name", "size"), [(HISTOGRAM, 0x180), (MATMULT, 0xC00)])
def test_source_lines_are_where_nvidia_finds_them(tmp_path: Path, name: str, size: int) -> None:
    library = pytest.importorskip("ncu_report")
    plain = list(library.load_report(str(recorded(name)))[0])[-1]
    first = plain["launch__function_pcs"].as_uint64(0)
    counts = {
        LONG: {first + at: at // 16 % 7 for at in range(0, size, 16)},
        SELECTED: {first + at: 1 for at in range(0, size, 32)},
        NOT_ISSUED: {first + at: 5 for at in range(0, size, 16)},
        "inst_executed": {first + at: 32 for at in range(0, size, 16)},
        SECTORS: {first + 0x50: 96},
        SECTORS + "_ideal": {first + 0x50: 32},
    }
    report = tmp_path / "made.ncu-rep"
    report.write_bytes(with_more(recorded(name), counts))
    launch = list(library.load_report(str(report))[0])[-1]
    theirs: dict[str, dict[str, float]] = {}
    for metric in counts:
        found = launch[metric]
        for number in range(found.num_instances()):
            place = launch.source_info(found.correlation_ids().as_uint64(number))
            values = theirs.setdefault(f"{Path(place.file_name()).name}:{place.line()}", dict.fromkeys(counts, 0.0))
            values[metric] += found.as_uint64(number)
    lines = source_lines(open_path(report, cache=False).main)
    assert len(theirs) >= 5
    assert set(lines["place"]) == set(theirs)
    for place, samples, percent, stall, instructions, sectors, surplus in lines.select(
        "place", "samples", "percent", "stall", "instructions", "sectors_per_request", "surplus_percent"
    ).iter_rows():
        own = theirs[place]
        assert (samples, instructions) == (own[LONG] + own[SELECTED], own["inst_executed"])
        assert percent == pytest.approx(100 * samples / (sum(counts[LONG].values()) + len(counts[SELECTED])))
        assert stall == ("long_sb" if own[LONG] else None)
        expected = (own[SECTORS] / 32, 100 * 64 / 96) if own[SECTORS] else (None, None)
        assert (sectors, surplus) == expected
    assert main(["report", str(report), "--section", "source_lines"]) == 0


def test_texts_of_the_source_stand_beside_the_lines(tmp_path: Path) -> None:
    source = message((1, message((1, "/home/me/hw3_ex1_template.cu"), (2, "\n" * 67 + "__global__ void convert"))))
    counts = {LONG: {0x7FE6FF040B00: 3, 0x7FE6FF040B10: 1}}
    report = tmp_path / "made.ncu-rep"
    report.write_bytes(with_more(recorded(HISTOGRAM), counts, source=source))
    lines = source_lines(open_path(report, cache=False).main)
    assert lines.select("place", "source", "samples").rows() == [
        ("hw3_ex1_template.cu:68", "__global__ void convert", 3.0), ("hw3_ex1_template.cu:69", "", 1.0)
    ]  # fmt: skip


def test_ranges_around_a_launch_are_those_of_its_thread(tmp_path: Path) -> None:
    library = pytest.importorskip("ncu_report")
    nothing = message((1, 0), (2, 0))
    registered = message((1, 3), (2, 0), (3, nothing), (4, nothing), (5, message((1, 3), (3, 77))))
    own = message((1, 1), (3, message((1, "outer"))), (3, message((1, "inner"))))
    other = message((1, 1), (3, message((1, "of another thread"))))
    nvtx = message(
        (1, message((1, 1), (2, ""))),
        (1, message((1, 5), (2, "NCCL"), (3, message((1, 77), (2, "ncclAllReduce"))))),
        (2, message((1, 1), (2, other))),
        (2, message((1, 1_553_047), (2, own), (2, message((1, 5), (3, message((1, ""), (2, registered))))))),
        (3, message((1, 1), (3, message((1, 9), (2, "loose"))))),
        (4, 1),
    )
    report = tmp_path / "made.ncu-rep"
    report.write_bytes(with_more(recorded(HISTOGRAM), {}, nvtx))
    trace = open_path(report, cache=False).main
    found = trace.counters.filter(pl.col("section").cast(pl.String) == "NVTX")
    assert found.select("device_row", pl.col("metric").cast(pl.String), "text").rows() == [
        (1, "push/pop range", "outer/inner/NCCL:ncclAllReduce"), (1, "start/end range", "loose")
    ]  # fmt: skip
    state = list(library.load_report(str(report))[0])[-1].nvtx_state()
    domains = [state.domain_by_id(number) for number in state.domains()]
    assert [(domain.name(), domain.push_pop_ranges(), domain.start_end_ranges()) for domain in domains] == [
        ("", ("outer", "inner"), ("loose",)), ("NCCL", ("ncclAllReduce",), ())
    ]  # fmt: skip


@pytest.mark.parametrize("name", [HISTOGRAM, MATMULT])
def test_damaged_code_has_no_lines_or_is_damaged(name: str) -> None:
    data = recorded(name).read_bytes()
    codes = [
        data[slice(*part)]
        for header, begin, end in native._blocks(data)
        if dict(header)[1]
        for number, part in fields(data, *native._sized(data, begin, end)[0])
        if number == 4
    ]
    assert any(map(lines_of, codes))
    chance = random.Random(7)
    for code in codes:
        for _ in range(60):
            broken = bytearray(code)
            for _ in range(chance.randrange(1, 9)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            try:
                lines_of(bytes(broken[: chance.randrange(len(broken))] if chance.random() < 0.3 else broken))
            except Damaged:
                continue


def test_damage_in_what_is_counted_at_instructions(tmp_path: Path) -> None:
    """Of a launch it costs the lines or the launch, and never the others."""
    counts = {LONG: {0x7FE6FF040B00 + at: 3 for at in range(0, 0x180, 16)}}
    content = with_more(recorded(HISTOGRAM), counts, message((2, message((1, 1_553_047)))))
    path, chance = tmp_path / "broken.ncu-rep", random.Random(5)
    for _ in range(60):
        broken = bytearray(content)
        for _ in range(chance.randrange(1, 6)):
            broken[chance.randrange(len(broken) - 900, len(broken))] = chance.randrange(256)
        path.write_bytes(broken)
        trace = read_ncu(path)
        assert trace.device.height in (1, 2)
        assert source_lines(trace)["samples"].sum() >= 0
