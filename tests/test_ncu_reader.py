"""Nsight Compute's CSV in every form it comes in; the trap that a test is about stands in its name."""

import csv
import gzip
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ncu_file
import polars as pl
import pytest
from sample_runs import recorded

from tracetui.parsers import Trace
from tracetui.parsers.errors import TraceError
from tracetui.parsers.ncu.frames import base_unit
from tracetui.parsers.ncu.reader import read_ncu
from tracetui.parsers.ncu.sniff import looks_like_ncu

SAXPY = 'void saxpy<float, (bool)1>(int, const char *)::[lambda(int) ("quoted", 2)]'
PROF = (
    "==PROF== Connected to process 77 (/opt/app/train)\n"
    "step 1, loss 0.25\n"
    '"this", is what the program says\n'
    '==PROF== Profiling "saxpy" - 0: 0%....50%....100% - 9 passes\n'
)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Trace]:
    """Reads a text as a file."""

    def work(text: str | bytes, name: str = "report.csv") -> Trace:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_ncu(path)

    return work


def metric(trace: Trace, name: str, row: int = 0) -> tuple[Any, ...]:
    """(section, unit, value, text) of a metric of a launch."""
    found = trace.counters.filter(
        (pl.col("metric").cast(pl.String) == name) & (pl.col("device_row") == row) & (pl.col("kind") == "metric")
    )
    return found.select("section", "unit", "value", "text").row(0)


def notes(trace: Trace) -> dict[tuple[str, str], int]:
    return {(note.kind, note.reason): note.count for note in trace.notes}


# --- what stands around the table


def test_trap_19_bom_program_output_and_separators(read: Callable[..., Trace]) -> None:
    table = ncu_file.long_table([(0, SAXPY, ncu_file.SOL, "Elapsed Cycles", "cycle", "1,234,567")])
    trace = read(b"\xef\xbb\xbf" + (PROF + table + "done, bye\n==PROF== Disconnected from process 77\n").encode())
    assert trace.device["name"].to_list() == [SAXPY]
    assert metric(trace, "Elapsed Cycles") == (ncu_file.SOL, "cycle", 1234567.0, None)
    assert (trace.source.events_parsed, trace.source.events_total, trace.notes) == (1, 1, ())
    assert trace.device.select("process", "context", "stream", "device").row(0) == (77, 1, 7, 0)
    assert trace.device.select("grid", "block").row(0) == ([96, 2, 1], [128, 1, 1])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_what_powershell_writes(read: Callable[..., Trace], encoding: str) -> None:
    text = PROF + ncu_file.long_table([(0, SAXPY, ncu_file.SOL, "Duration", "usecond", "12.5")])
    content = text.replace("\n", "\r\n").encode(encoding)
    assert looks_like_ncu(content)
    trace = read(content)
    assert trace.device["duration"].to_list() == [12500]
    assert trace.device["name"].to_list() == [SAXPY]


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_every_kind_of_line_end(read: Callable[..., Trace], end: str) -> None:
    rows = [(n, SAXPY, ncu_file.SOL, "Duration", "usecond", "12.5") for n in range(3)]
    trace = read((PROF + ncu_file.long_table(rows)).replace("\n", end))
    assert trace.device["duration"].to_list() == [12500] * 3
    assert not trace.notes


def test_output_between_and_glued_to_rows(read: Callable[..., Trace]) -> None:
    header, first, second = ncu_file.long_table(
        [(0, SAXPY, ncu_file.SOL, "Duration", "ns", "1"), (1, SAXPY, ncu_file.SOL, "Duration", "ns", "2")]
    ).splitlines()
    trace = read(f"loss: {header}\n{first}\nepoch 2, 3 of 4\n==WARNING== late\nloss 0.5 {second}\n")
    assert trace.device["duration"].to_list() == [1, 2]


def test_several_processes_with_headers_of_their_own(read: Callable[..., Trace]) -> None:
    one = ncu_file.wide_table({"gpu__time_duration.sum": "us"}, [("k", ["1.5"]), ("k", ["2"])], pid=1)
    two = ncu_file.wide_table({"gpu__time_duration.sum": "ns", "launch__grid_size": ""}, [("k", ["7", "9"])], pid=2)
    trace = read(PROF + one + "==PROF== Disconnected from process 1\n" + two)
    assert trace.device.select("process", "duration").rows() == [(1, 1500), (1, 2000), (2, 7)]
    assert trace.info.processes == ((1, "train.py"), (2, "train.py"))
    assert metric(trace, "launch__grid_size", 2)[2] == 9


def test_processes_that_write_into_one_table_in_turns(read: Callable[..., Trace]) -> None:
    sol = ncu_file.SOL
    table = ncu_file.long_table(
        [(0, "a", sol, "Duration", "ns", "5"), (0, "b", sol, "Duration", "ns", "6"), (0, "a", sol, "SM [%]", "%", "50")]
    )
    trace = read(table)
    assert trace.device.select(pl.col("name").cast(pl.String), "duration").rows() == [("a", 5), ("b", 6)]
    assert trace.counters["device_row"].to_list() == [0, 0, 1]


def test_the_host_is_not_kept(read: Callable[..., Trace]) -> None:
    trace = read(ncu_file.long_table([(0, "k", ncu_file.SOL, "Duration", "ns", "5")]))
    everything = repr([trace.info, trace.notes, trace.device.to_dicts(), trace.counters.to_dicts()])
    assert "train.py" in everything
    assert "10.1.2.3" not in everything


# --- forms


def test_trap_20_ragged_details_with_rules(read: Callable[..., Trace]) -> None:
    advice = 'Threads wait: 1, 2 or 3 of "them".\nSee below.'
    table = ncu_file.long_table(
        [(0, SAXPY, "Occupancy", "Achieved Occupancy", "%", "45.5")],
        rules=[
            (0, SAXPY, "Occupancy", "TheoreticalOccupancy", "OPT", advice, "local", "12.5"),
            (0, SAXPY, "SpeedOfLight", "SOLBottleneck", "WRN", "Small.", "", ""),
        ],
    )
    trace = read(table)
    assert (trace.source.events_parsed, trace.source.events_total, trace.notes) == (3, 3, ())
    rules = trace.counters.filter(pl.col("kind") != "metric").select(
        "kind", pl.col("section", "metric", "unit").cast(pl.String), "value", "text"
    )
    assert rules.rows() == [
        ("opt", "Occupancy", "TheoreticalOccupancy", "local", 12.5, advice),
        ("wrn", "SpeedOfLight", "SOLBottleneck", None, None, "Small."),
    ]


def test_trap_21_raw_page_with_its_units_row(read: Callable[..., Trace]) -> None:
    names = {f"sm__metric_{number}.sum": "%" if number % 2 else "Kbyte" for number in range(470)}
    names = {"memory_access_type": "", **names}  # columns may stand in any order
    values = ["2", *(str(number) for number in range(470))]
    trace = read(ncu_file.wide_table(names, [(SAXPY, values), ("other", values)]))
    assert trace.device.height == 2
    assert trace.counters.height == 942
    assert metric(trace, "memory_access_type", 1) == (None, "", 2.0, None)
    assert metric(trace, "sm__metric_4.sum", 1) == (None, "byte", 4000.0, None)
    assert metric(trace, "sm__metric_5.sum") == (None, "%", 5.0, None)


@pytest.mark.parametrize("saved", ["as it is", "with few quotes"])
def test_a_raw_page_without_its_units_row(read: Callable[..., Trace], saved: str) -> None:
    table = ncu_file.wide_table({"gpu__time_duration.sum": "ns", "launch__x": ""}, [("f(int, int)", ["1,234", "all"])])
    lines = table.splitlines()
    text = "\n".join([lines[0], *lines[2:]])
    if saved == "with few quotes":
        out = io.StringIO()
        csv.writer(out).writerows(csv.reader(io.StringIO(text)))
        text = out.getvalue()
    trace = read(text)
    # a time without its unit is unknown, not ns
    assert trace.device.select(pl.col("name").cast(pl.String), "duration").row(0) == ("f(int, int)", None)
    assert metric(trace, "launch__x") == (None, "", None, "all")
    assert [note.count for note in trace.notes if note.reason.startswith("units row")] == [1]


def test_of_two_columns_of_one_name_the_first_counts_and_that_is_told(read: Callable[..., Trace]) -> None:
    first, second = "gpu__time_duration.sum", "sm__x.sum"
    text = ncu_file.wide_table({first: "ns", second: "ns"}, [("f", ["100", "1000"])]).replace(second, first)
    trace = read(text)
    assert trace.device["duration"].to_list() == [100]
    assert [(note.kind, note.count, note.example) for note in trace.notes] == [("repaired", 1, first)]


def test_metrics_on_the_command_line(read: Callable[..., Trace]) -> None:
    section = "Command line profiler metrics"
    trace = read(
        ncu_file.long_table(
            [
                (0, "k", section, "dram__bytes.sum", "Mbyte", "2,000.00"),
                (0, "k", section, "gpu__time_duration.sum", "msecond", "2"),
            ]
        )
    )
    assert metric(trace, "dram__bytes.sum") == (section, "byte", 2e9, None)
    assert trace.device["duration"].to_list() == [2_000_000]


def test_a_summary_stands_for_its_launches(read: Callable[..., Trace]) -> None:
    header = [
        "Process ID",
        "Kernel Name",
        "Invocations",
        "Section Name",
        "Metric Name",
        "Metric Unit",
        "Minimum",
        "Maximum",
        "Average",
    ]
    rows = [
        ["1", "k<a, b>", "14", ncu_file.SOL, "Duration", "us", "1", "3", "2"],
        ["1", "k<a, b>", "14", "", "DRAM Throughput", "%", "5", "15", "10"],
    ]
    trace = read("==PROF== Connected\n" + "\n".join(map(ncu_file.line, [header, *rows])))
    assert trace.device.select(pl.col("name").cast(pl.String), "duration").rows() == [("k<a, b>", 2000)]
    assert metric(trace, "Invocations")[2] == 14
    assert metric(trace, "Duration (maximum)")[1:3] == ("ns", 3000)
    assert metric(trace, "DRAM Throughput (minimum)")[2] == 5


def test_trap_23_labels_and_units_of_2020(read: Callable[..., Trace]) -> None:
    header = [
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Kernel Time",
        "Context",
        "Stream",
        *ncu_file.LONG,
    ]
    start = [
        "0",
        "77",
        "cfd",
        "127.0.0.1",
        "step(int,float*,float*)",
        "2020-May-29 12:02:46",
        "1",
        "7",
        "GPU Speed Of Light",
    ]
    rows = [
        ["Memory Frequency", "cycle/second", "768683274.02"],
        ["SM Frequency", "cycle/nsecond", "1.14"],
        ["SOL FB", "%", "46.47"],
        ["Duration", "nsecond", "9,024"],
    ]
    trace = read("\n\n".join([ncu_file.line(header), *(ncu_file.line([*start, *row]) for row in rows)]))
    assert trace.device.select("duration", "grid", "device").row(0) == (9024, None, None)
    assert metric(trace, "Memory Frequency")[1:3] == ("hz", 768683274.02)
    assert metric(trace, "SM Frequency")[1:3] == ("hz", 1_140_000_000)
    assert ("kernel time", "2020-May-29 12:02:46") in trace.info.captured


def test_trap_25_two_memory_throughputs_stay_two(read: Callable[..., Trace]) -> None:
    trace = read(
        ncu_file.long_table(
            [
                (0, "k", ncu_file.SOL, "Memory Throughput", "%", "36.27"),
                (0, "k", "Memory Workload Analysis", "Memory Throughput", "Gbyte/s", "73.56"),
            ]
        )
    )
    found = trace.counters.select(pl.col("section", "metric", "unit").cast(pl.String), "value").rows()
    assert found == [
        (ncu_file.SOL, "Memory Throughput", "%", 36.27),
        ("Memory Workload Analysis", "Memory Throughput", "byte/s", 73_560_000_000.0),
    ]


# --- values


def test_trap_24_what_is_no_number(read: Callable[..., Trace]) -> None:
    cells = [
        "nan",
        "(!) nan",
        "n/a",
        "no data",
        "inf",
        "",
        "PolicySpread",
        "0,1,2",
        "(!) 4.5",
        "158 (0: 79; 1: 79)",
        "1e-05",
        "12.5%",
    ]
    names = {f"sm__m{number}": "%" for number in range(len(cells))}
    trace = read(ncu_file.wide_table(names, [("k", cells)]))
    found = {row[0]: row[1:] for row in trace.counters.select("metric", "value", "text").rows()}
    assert [found.get(f"sm__m{number}") for number in range(len(cells))] == [
        (None, "nan"), (None, "(!) nan"), (None, "n/a"), (None, "no data"), (None, "inf"), None, (None, "PolicySpread"),
        (None, "0,1,2"), (4.5, None), (158.0, None), (1e-05, None), (12.5, None),
    ]  # fmt: skip
    assert notes(trace) == {("missing", "metric without a value"): 5}
    assert not trace.counters["value"].is_nan().any()


def test_a_failed_pass_leaves_the_duration_unknown(read: Callable[..., Trace]) -> None:
    trace = read(ncu_file.wide_table({"gpu__time_duration.sum": "ns"}, [("k", ["nan"]), ("k", ["5"])]))
    assert trace.device["duration"].to_list() == [None, 5]


def test_numbers_of_a_german_machine(read: Callable[..., Trace]) -> None:
    trace = read(
        ncu_file.long_table(
            [(0, "k", "s", "Duration", "us", "12,5"), (0, "k", "s", "Executed Instructions", "inst", "1.234.567"),
             (0, "k", "s", "Threads", "thread", "9.600"), (0, "k", "s", "L2 Hit Rate", "%", "88,27")]
        )
    )  # fmt: skip
    assert trace.device["duration"].to_list() == [12500]
    assert [metric(trace, name)[2] for name in ("Executed Instructions", "Threads", "L2 Hit Rate")] == [
        1234567,
        9600,
        88.27,
    ]
    assert ("repaired", "numbers with a decimal comma") in notes(trace)


@pytest.mark.parametrize(
    ("spelled", "base", "factor"),
    [
        ("nsecond", "ns", 1), ("usecond", "ns", 1e3), ("us", "ns", 1e3), ("msecond", "ns", 1e6), ("second", "ns", 1e9),
        ("Kbyte", "byte", 1e3), ("Gbyte/second", "byte/s", 1e9), ("Tbyte/s", "byte/s", 1e12),
        ("byte/second", "byte/s", 1),
        ("Ghz", "hz", 1e9), ("hz", "hz", 1), ("cycle/second", "hz", 1), ("cycle/usecond", "hz", 1e6),
        ("sector/ns", "sector/s", 1e9), ("sector/ms", "sector/s", 1e3), ("inst/cycle", "inst/cycle", 1),
        ("Kbyte/block", "byte/block", 1e3), ("%/Kbyte", "%/byte", 1e-3), ("%", "%", 1), ("", "", 1),
        ("register/thread", "register/thread", 1), ("SM", "SM", 1), ("warp", "warp", 1),
    ],
)  # fmt: skip
def test_units_lose_their_prefixes(spelled: str, base: str, factor: float) -> None:
    assert base_unit(spelled) == (base, pytest.approx(factor, rel=1e-15))


def test_nvtx_ranges_from_the_outermost_in(read: Callable[..., Trace]) -> None:
    attributes = ":none:none:none:none:none:none"
    cells = [
        f'77  "<default domain>:forward_pass{attributes}"  "<default domain>:aten::mm, seq = 3{attributes}" ',
        f'77  "NCCL:ncclAllReduce{attributes}" ',
        '77  "<default domain>:short:none" ',
        "",
    ]
    trace = read(ncu_file.wide_table({"launch__x": ""}, [("k", ["1"])] * 4, nvtx=cells))
    found = trace.counters.filter(pl.col("section").cast(pl.String) == "NVTX").select("device_row", "metric", "text")
    assert found.rows() == [
        (0, "push/pop range", "forward_pass/aten::mm, seq = 3"),
        (1, "push/pop range", "NCCL:ncclAllReduce"),
        (2, "push/pop range", "short"),
    ]


# --- damage


def test_a_cut_file_gives_what_is_whole(read: Callable[..., Trace]) -> None:
    table = ncu_file.long_table([(number, SAXPY, ncu_file.SOL, "Duration", "ns", "5") for number in range(10)])
    trace = read(table[:-8])
    assert trace.device.height == 9
    assert (trace.source.events_parsed, trace.source.events_total) == (9, 10)
    assert notes(trace) == {("skipped", "row cut short"): 1}


def test_a_cut_gzip_stream_gives_what_is_whole(read: Callable[..., Trace]) -> None:
    table = ncu_file.wide_table({"gpu__time_duration.sum": "ns"}, [(f"kernel_{n}", [str(n)]) for n in range(3000)])
    content = gzip.compress(table.encode())
    trace = read(content[: len(content) * 2 // 3], "report.csv.gz")
    assert 1000 < trace.device.height < 3000
    assert trace.device["duration"].to_list() == list(range(trace.device.height))
    assert ("missing", "the compressed stream ends early") in notes(trace)


def test_bad_bytes_and_a_row_of_another_width(read: Callable[..., Trace]) -> None:
    table = ncu_file.wide_table({"gpu__time_duration.sum": "ns"}, [("k", ["1"]), ("k", ["2"]), ("k", ["3", "4", "5"])])
    trace = read(table.encode().replace(b'"train.py"', b'"tr\xff\0in"', 1))
    assert trace.device["duration"].to_list() == [1, 2]
    assert notes(trace) == {("skipped", "row with too many fields"): 1}


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("==PROF== Connected to process 77 (/opt/app)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission "
         "to access NVIDIA GPU Performance Counters\n", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==PROF== Connected to process 77\nhello\n==WARNING== No kernels were profiled.\n", "--kernel-name"),
        ("==ERROR== The application returned an error code (9).\n", "error code (9)"),
        ("==PROF== Connected to process 77\n==PROF== Report: /tmp/x.ncu-rep\n", "--csv --page raw"),
    ],
)  # fmt: skip
def test_trap_22_a_log_without_a_table_says_why(read: Callable[..., Trace], log: str, said: str) -> None:
    assert looks_like_ncu(log.encode())
    with pytest.raises(TraceError) as problem:
        read(log)
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_some_launches_without_permission(read: Callable[..., Trace]) -> None:
    table = ncu_file.long_table([(0, "k", ncu_file.SOL, "Duration", "ns", "5")])
    trace = read(table + "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
    assert trace.device.height == 1
    assert any("NVreg_RestrictProfilingToAdminUsers=0" in note.reason for note in trace.notes)


def test_a_table_without_rows_opens_empty(read: Callable[..., Trace]) -> None:
    trace = read(ncu_file.wide_table({"launch__x": ""}, []))
    assert trace.device.height == 0
    assert any("no rows" in note.reason for note in trace.notes)


def test_durations_that_can_not_be(read: Callable[..., Trace]) -> None:
    launches = [("k()", [value]) for value in ("1e23", "-5", "1e3")]
    trace = read(ncu_file.wide_table({"gpu__time_duration.sum": "ns"}, launches))
    assert trace.device["duration"].to_list() == [None, None, 1000]


@pytest.mark.parametrize("text", ['{"traceEvents": []}', "ID,Name,Value\n1,a,2\n", "a program's output\n", ""])
def test_other_texts_are_not_taken_for_ncu(text: str) -> None:
    assert not looks_like_ncu(text.encode())


# --- scale and the recordings


def test_two_thousand_launches_of_five_hundred_metrics_in_seconds(read: Callable[..., Trace]) -> None:
    values = [f"{number * 1.25:,.2f}" for number in range(500)]
    names = {f"sm__metric_{number}.sum": "Kbyte" for number in range(499)} | {"gpu__time_duration.sum": "us"}
    table = ncu_file.wide_table(names, [(SAXPY, values)] * 2000)
    began = time.process_time()  # what runs beside this takes no part in it
    trace = read(table)
    assert time.process_time() - began < 10
    assert trace.counters.height == 1_000_000
    assert trace.device["duration"].to_list() == [623_750] * 2000


@pytest.mark.parametrize(
    ("name", "launches", "kernels", "metrics", "rules"),
    [
        ("ncu/vim_full_raw.csv.gz", 44, 17, 97460, 0),
        ("ncu/vim_full_details.csv.gz", 44, 17, 3828, 629),
        ("ncu/vim_basic_stdout_details.csv.gz", 3, 3, 150, 16),
        ("ncu/scan_metrics_raw.csv.gz", 8, 1, 2200, 0),
        ("ops/ops.ncu.csv.gz", 43, 36, 12857, 0),
    ],
)
def test_recordings(name: str, launches: int, kernels: int, metrics: int, rules: int) -> None:
    trace = read_ncu(recorded(name))
    rows = trace.counters.filter(pl.col("section").cast(pl.String).fill_null("") != "NVTX")
    assert trace.device.height == launches
    assert trace.device["name"].n_unique() == kernels
    assert rows.filter(pl.col("kind") == "metric").height == metrics
    assert rows.filter(pl.col("kind") != "metric").height == rules
    assert trace.device["duration"].null_count() == 0
    assert not [note for note in trace.notes if note.kind != "missing"]


def test_every_cell_of_the_raw_page_is_the_counter_it_is() -> None:
    """Against the csv module and arithmetic of whole digits."""
    path = recorded("ncu/vim_full_raw.csv.gz")
    text = gzip.decompress(path.read_bytes()).decode()
    header, units, *rows = csv.reader(io.StringIO(text))
    first = header.index("CC") + 1
    expected: dict[tuple[int, str], float | str] = {}
    for number, row in enumerate(rows):
        for name, unit, cell in zip(header[first:], units[first:], row[first:], strict=True):
            if not cell:
                continue
            try:
                value = float(cell.replace(",", ""))
            except ValueError:
                expected[number, name] = cell
            else:
                expected[number, name] = value * base_unit(unit)[1] if value == value else cell
    trace = read_ncu(path)
    found = {
        (row, name): text if value is None else value
        for row, name, value, text in trace.counters.filter(pl.col("section").is_null())
        .select("device_row", pl.col("metric").cast(pl.String), "value", "text")
        .iter_rows()
    }
    assert found.keys() == expected.keys()
    texts = {key: cell for key, cell in expected.items() if isinstance(cell, str)}
    assert {key: found[key] for key in texts} == texts
    numbers = [key for key in expected if key not in texts]
    assert [found[key] for key in numbers] == pytest.approx([expected[key] for key in numbers], rel=1e-14)


@pytest.mark.parametrize(
    ("unit", "said"),
    [("second", "duration in which no GPU"), ("ns", "duration in which no GPU"), ("cycle", "value in a unit"),
     ("fortnight", "value in a unit"), ("", "value in a unit")],
)  # fmt: skip
def test_a_duration_in_a_wrong_unit_is_unknown(read: Callable[..., Trace], unit: str, said: str) -> None:
    columns = {"gpu__time_duration.sum": "us", "gpc__cycles_elapsed.max": "cycle", "launch__registers_per_thread": ""}
    rows = [("k", ["41.28", "47,000", "32"])]
    right = read(ncu_file.wide_table(columns, rows))
    assert (right.device["duration"][0], [note.reason for note in right.notes]) == (41_280, [])
    wrong = read(ncu_file.wide_table({**columns, "gpu__time_duration.sum": unit}, rows))
    assert (wrong.device["duration"][0], wrong.device["registers"][0]) == (None, 32)
    assert [note.reason.startswith(said) for note in wrong.notes] == [True]
