"""What the fuzzer found, each as the smallest input that shows it."""

import itertools
import json
import pickle
import sqlite3
import tracemalloc
import zlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from as_json import report
from chrome_file import ChromeFile
from laid_out import run_parts
from ncu_file import IDS, PLACE, line, long_table, wide_table
from nsys_file import NsysFile
from snapshot_file import Allocator, snapshot, write

from tracetui.analysis.dependencies import costs
from tracetui.analysis.dependencies.critical_path import inner_calls
from tracetui.analysis.findings.config import parse
from tracetui.analysis.gpu.occupancy import SmLimits, estimated_occupancy, occupancy
from tracetui.app.reports.content.charts import levels
from tracetui.app.reports.json_report import to_json
from tracetui.app.reports.layout import Layout
from tracetui.app.reports.text import text
from tracetui.collectors.scrub import scrub_file
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers import Trace, TraceError, open_path, schema
from tracetui.parsers.chrome import pieces, reader
from tracetui.parsers.chrome.cut import cut
from tracetui.parsers.chrome.tokens import Irregular
from tracetui.parsers.memory.pickle_scan import load_plain
from tracetui.parsers.nsys.reader import read_nsys
from tracetui.parsers.runs import cache


def opened(path: Path) -> Trace:
    return open_path(path, cache=False).main


def printed(path: Path) -> str:
    failed: list[Exception] = []
    layout = Layout(10)
    found = text(run_parts(report(open_path(path, cache=False), on_error=failed.append), layout), layout)
    assert failed == []
    return found


def skipped(trace: Trace) -> int:
    return sum(note.count for note in trace.notes if note.kind == "skipped")


def work(n: int) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": f"op{n}", "ts": 10 * n, "dur": 3, "pid": 1, "tid": 1, "args": {"n": n}}


def of_events(folder: Path, events: Iterable[str], top: str = "") -> Trace:
    """The trace of a file that holds these texts as its list of events."""
    path = folder / "a.json"
    end = "\n  ]\n}\n" if top else "\n]}"
    path.write_text("{" + top + '"traceEvents": [\n  ' + ",\n  ".join(events) + end)
    return opened(path)


def on_lines(event: dict[str, Any] | str) -> str:
    """An event whose braces have lines of their own."""
    return "{\n    " + (event if isinstance(event, str) else json.dumps(event))[1:-1] + "\n  }"


SCHEMA = '\n  "schemaVersion": 1,\n  '


@pytest.fixture(params=["fast", "slow"])
def path_of_reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(chunk: object) -> Any:
        raise Irregular("tested")

    if request.param == "slow":
        monkeypatch.setattr(reader, "scan", refuse)


def test_what_is_no_event_costs_no_event_beside_it(tmp_path: Path, path_of_reading: None) -> None:
    for case in itertools.product([0, 1, 3, 6], ["[]", "1", '"text"', "null", '[{"ph": "X"}]', "{}"]):
        place, foreign = case
        events = [json.dumps(work(n)) for n in range(6)]
        trace = of_events(tmp_path, [*events[:place], foreign, *events[place:]])
        assert trace.host["name"].cast(pl.String).to_list() == [f"op{n}" for n in range(6)], case
        assert skipped(trace) == (0 if foreign == "{}" else 1), case
        assert trace.source.events_total == 6 + skipped(trace), case


def test_the_rest_of_a_damaged_event_is_counted(tmp_path: Path, path_of_reading: None) -> None:
    events = [json.dumps(work(n)) for n in range(6)]
    events[3] = events[3].replace('{"ph": "X"', "")
    trace = of_events(tmp_path, events)
    assert trace.host["name"].cast(pl.String).to_list() == ["op0", "op1", "op2", "op4", "op5"]
    assert (trace.source.events_total, skipped(trace)) == (6, 1)


def test_offsets_are_where_events_begin(tmp_path: Path, path_of_reading: None) -> None:
    for case in itertools.product(
        [b"plain", "größer 🙂".encode(), b"no \xff UTF-8 \xc3("], [b",\n  ", b",", b" ,\n\n"]
    ):
        name, between = case
        path = tmp_path / "a.json"
        events = [json.dumps(work(n)).encode().replace(b"op", name) for n in range(6)]
        path.write_bytes(b'{"traceEvents": [\n  ' + between.join(events) + b"\n]}")
        content = path.read_bytes()
        assert opened(path).host["offset"].to_list() == [content.index(event) for event in events], case


def test_a_list_of_a_million_values_takes_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no event follows, it is looked for once and not behind each value."""
    searches = []

    class Counted:
        match = staticmethod(pieces._RESUME.match)

        def search(self, *given: Any) -> Any:
            searches.append(given)
            return resume(*given)

    resume = pieces._RESUME.search
    monkeypatch.setattr(pieces, "_RESUME", Counted())
    path = tmp_path / "a.json"
    path.write_text('{"traceEvents": [' + '"x": 1, ' * 2000 + "{}]}")
    trace = opened(path)
    assert trace.source.events_parsed == 0
    assert skipped(trace) >= 1
    assert len(searches) <= 2


def test_no_event_takes_a_hundred_days(tmp_path: Path, path_of_reading: None) -> None:
    path = tmp_path / "a.json"
    events = [work(0), {**work(1), "dur": 9e14}, {**work(2), "dur": 9e9}]
    path.write_text(json.dumps({"traceEvents": events}))
    trace = opened(path)
    assert trace.host["duration"].to_list() == [3000, 0, 9 * 10**12]
    assert [(note.kind, note.count) for note in trace.notes] == [("repaired", 1)]


def test_no_activity_takes_a_hundred_days_in_nsys(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel("k", 10, 20)
    file.kernel("k", 10, 1 << 60)
    trace = opened(file.write(tmp_path / "a.sqlite"))
    assert trace.device["duration"].to_list() == [10, 0]
    assert [note.count for note in trace.notes if "104 days" in note.reason] == [1]


def test_durations_of_zero_fail_no_rule(tmp_path: Path) -> None:
    file = ChromeFile()
    file.gpu("NVIDIA H200", "9.0", 132)
    for step in range(3):
        file.step(step, step * 100, step * 100)
        file.operator("aten::mm", step * 100, step * 100, shapes=[[1, 2]])
        file.launch("gemm", call=(step * 100, step * 100), kernel=(step * 100, step * 100))
    assert "none took any" in printed(file.write(tmp_path / "a.json"))


def test_a_replay_beyond_64_bits_is_cut() -> None:
    assert costs._whole([1, 1 << 70, -(1 << 70)]).tolist() == [1, 1 << 62, -(1 << 62)]


def test_the_critical_path_of_a_thread_without_calls(tmp_path: Path) -> None:
    from tracetui.analysis.dependencies.host_layers import HostLayers

    none = np.empty(0, np.int64)
    layers = HostLayers(none, none, none, np.empty(0, np.uint8), (none, none))
    file = ChromeFile()
    file.operator("aten::mm", 0, 9)
    host = opened(file.write(tmp_path / "a.json")).host
    graph = SimpleNamespace(calls=SimpleNamespace(row=np.array([0])))
    found = inner_calls(host, graph, layers, np.array([0]), np.array([5]), np.array([9]))
    assert (found.stop - found.start).tolist() == [4]
    assert found.row.tolist() == [-1]


def test_an_occupancy_that_is_no_share_is_unknown() -> None:
    device = schema.empty(schema.DEVICE).clear(4).with_columns(occupancy_percent=pl.Series([50.0, 1e308, -1.0, 100.0]))
    assert device.select(estimated_occupancy())["occupancy_percent"].to_list() == [50.0, None, None, 100.0]


def test_registers_and_shared_memory_below_zero_are_unknown() -> None:
    for case in itertools.product([-1, -1024, -(2**40), None], [-1, -7, -8, -(2**62), 0]):
        shared, registers = case
        sm = SmLimits(64, 32, 1 << 16, 1 << 17, 128, 1024, 4)
        assert occupancy(256, registers, shared, sm) == occupancy(256, None, None, sm), case


def test_a_number_of_a_gpu_that_no_column_holds_places_nothing(tmp_path: Path) -> None:
    file = NsysFile()
    file.kernel("gemm", 0, 10)
    file.process("train")
    file.cuda_device(10**15, 0)
    assert open_path(file.write(tmp_path / "a.sqlite"), cache=False).main.device["device"].to_list() == [0]


def test_shapes_nested_without_end_stay_as_they_are(tmp_path: Path) -> None:
    deep = "[" * 5000 + "]" * 5000
    path = tmp_path / "a.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    text = json.dumps({"traceEvents": [{**event, "args": {"Input Dims": "HERE"}}, {**event, "ts": 9}]})
    path.write_text(text.replace('"HERE"', deep))
    trace = opened(path)
    assert trace.host["name"].to_list() == ["aten::mm"] * 2


def test_what_is_no_json_costs_no_event_behind_it(tmp_path: Path, path_of_reading: None) -> None:
    for case in itertools.product(
        ["nul", "{", '{"ph"', '"abc', "[", "-", "==PROF== hi", '{"ph": "X", "name": "q", ', "\0\0"], [0, 2, 5]
    ):
        foreign, place = case
        events = [json.dumps(work(n)) for n in range(5)]
        trace = of_events(tmp_path, [*events[:place], foreign, *events[place:]])
        assert trace.host["name"].cast(pl.String).to_list() == [f"op{n}" for n in range(5)], case
        assert trace.source.events_total == 5 + skipped(trace), case
        # what is a bracket before another, or behind the last event, is no event
        assert skipped(trace) == 1 or place == 5, case


def test_events_without_commas_take_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    class Counted:
        @staticmethod
        def finditer(content: str, start: int, end: int) -> Any:
            looked.append(end - start)
            return event.finditer(content, start, end)

    event = pieces._EVENT
    monkeypatch.setattr(pieces, "_EVENT", Counted())
    path = tmp_path / "a.json"
    for between in (" x ", ", x, ", "} "):
        looked.clear()
        path.write_text('{"traceEvents": [' + between.join([json.dumps(work(1))] * 3000) + "]}")
        assert opened(path).source.events_parsed >= 1
        assert sum(looked) < 20 * path.stat().st_size


ENDLESS = "9" * 5000
"""Python refuses to make a number of more than 4,300 digits, and of digits such as ² any."""


@pytest.mark.parametrize("number", [ENDLESS, "²", "1²"])
@pytest.mark.parametrize("column", ["Process ID", "Block Size", "Grid Size", "Device", "Stream", "Context"])
def test_numbers_of_ncu_that_python_does_not_read(tmp_path: Path, column: str, number: str) -> None:
    cells: dict[str, object] = dict.fromkeys([*IDS, *PLACE], "1") | {"Process ID": "7", "gpu__time_duration.sum": "5"}
    cells[column] = number
    path = tmp_path / "a.csv"
    path.write_text(line(cells) + "\n" + line([""] * 11 + ["ns"]) + "\n" + line(cells.values()) + "\n")
    assert opened(path).device["duration"].to_list() == [5]


@pytest.mark.parametrize("size", ["1e300", "-5", "2147483648"])
def test_sizes_that_no_launch_has(tmp_path: Path, size: str) -> None:
    cells = dict.fromkeys([*IDS, *PLACE], "1") | {"Grid Size": "?", "Block Size": "?"}
    cells |= {f"launch__{name}_dim_{axis}": size for name in ("grid", "block") for axis in "xyz"}
    path = tmp_path / "a.csv"
    path.write_text(line(cells) + "\n" + line([""] * 11 + ["n"] * 6) + "\n" + line(cells.values()) + "\n")
    assert opened(path).device.select("grid", "block").rows() == [(None, None)]


@pytest.mark.parametrize("name", [f"_ZN{ENDLESS}", f"_ZN3fooC{ENDLESS}Ev"])
def test_a_mangled_name_of_endless_length(tmp_path: Path, name: str) -> None:
    file = ChromeFile()
    file.gpu("NVIDIA H200", "9.0", 132)
    file.launch(name, call=(0, 1), kernel=(2, 9))
    assert "2 of 2 events read" in printed(file.write(tmp_path / "a.json"))


def test_a_thread_of_endless_number(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    named = {"ph": "M", "name": "thread_name", "pid": 1, "tid": f"stream {ENDLESS}", "args": {"name": "s"}}
    path.write_text(json.dumps({"traceEvents": [named, work(1)]}))
    assert opened(path).info.threads == ()


def test_options_with_numbers_that_python_does_not_read() -> None:
    from tracetui.analysis.counters.metrics import stopped_at

    for number in (ENDLESS, "²"):
        commands = (("ncu", "--launch-count", number, "./t"),)
        manifest: Any = SimpleNamespace(measurement=SimpleNamespace(commands=commands))
        trace: Any = SimpleNamespace(device=pl.DataFrame({"a": [1]}))
        assert stopped_at(trace, manifest) is None


@pytest.mark.parametrize("first", ["1", "null", '"text"', "[1]"])
def test_a_list_of_events_may_begin_with_what_is_none(tmp_path: Path, path_of_reading: None, first: str) -> None:
    path = tmp_path / "a.json"
    path.write_text("[\n" + ",\n".join([first, *(json.dumps(work(n)) for n in range(4))]) + "\n]")
    trace = opened(path)
    assert trace.host["name"].cast(pl.String).to_list() == ["op0", "op1", "op2", "op3"]
    assert (trace.source.events_total, skipped(trace)) == (5, 1)


def test_a_line_of_ncus_log_in_a_trace_does_not_make_it_ncus(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    events = [json.dumps(work(n)) for n in range(4)]
    path.write_text('{"traceEvents": [\n' + ",\n".join([events[0], "==PROF== " + events[1], *events[2:]]) + "\n]}")
    trace = opened(path)
    assert trace.info.kind == "chrome"
    assert {"op0", "op2", "op3"} <= set(trace.host["name"].cast(pl.String))
    table = long_table([(0, "k", "Occupancy", "Achieved", "block", "1")])
    path.write_text("[\n" + ",\n".join(events) + "]\n==PROF== Connected to process 7\n" + table)
    assert opened(path).info.kind == "ncu"


def test_a_stack_of_millions_of_frames_takes_little_memory(tmp_path: Path) -> None:
    allocator = Allocator()
    allocator.alloc(512)
    value = snapshot(allocator)
    frame = {"filename": "a.py", "line": 1, "name": "f"}
    value["device_traces"][0][0]["frames"] = [frame] * 2_000_000
    path = write(tmp_path / "a.pickle", value)
    tracemalloc.start()
    trace = opened(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100e6, "as the list of frames itself takes 16 MB, and each copy of it as much"
    assert [note.count for note in trace.notes if "stack" in note.reason] == [1]


def test_shapes_of_any_type_are_read_alike_on_both_paths(tmp_path: Path, path_of_reading: None) -> None:
    for case in itertools.product(
        [("null", None), ('{"a": 1}', '{"a": 1}'), ("7", "7"), ('["\\u00e9\\n"]', '["é\\n"]'), ("[1, 2]", "[1, 2]")],
        ["Input Dims", "Input type"],
    ):
        (value, read), key = case
        events = [json.dumps({**work(n), "args": {key: "HERE", "n": n}}).replace('"HERE"', value) for n in range(3)]
        column = {"Input Dims": "input_shapes", "Input type": "input_types"}[key]
        trace = of_events(tmp_path, map(on_lines, events), top=SCHEMA)
        assert trace.host[column].cast(pl.String).to_list() == [read] * 3, case


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("inserted", [True, False])
def test_an_odd_byte_in_utf_16_costs_one_row(tmp_path: Path, encoding: str, ending: str, inserted: bool) -> None:
    path = tmp_path / "a.csv"
    table = long_table([(n, f"kernel{n}", "Occupancy", "Achieved", "block", str(n)) for n in range(20)])
    content = bytearray(("\ufeff" + table.replace("\n", ending)).encode(encoding))
    path.write_bytes(content)
    whole = opened(path).device["name"].to_list()
    for number in (11, 4):  # two odd bytes: behind the second the text lies right again
        at = content.index(f"kernel{number}".encode(encoding))
        content[at : at + (not inserted)] = b"x" if inserted else b""
    path.write_bytes(content)
    trace = opened(path)
    assert set(whole) - set(trace.device["name"].to_list()) == {"kernel4", "kernel11"}
    assert (trace.source.events_total, skipped(trace)) == (20, 2)
    assert [note.count for note in trace.notes if "UTF-16" in note.reason] == [2]
    scrub_file(path, tmp_path / "b.csv", Redactor())
    assert "10.1.2.3" not in (tmp_path / "b.csv").read_text()
    assert opened(tmp_path / "b.csv").device["name"].to_list() == trace.device["name"].to_list()


def test_texts_in_utf_16_are_refused(tmp_path: Path) -> None:
    """They came out as bytes with a blank between any two letters."""
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA encoding='UTF-16le'")
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.execute("INSERT INTO StringIds VALUES (1, 'k')")
        connection.commit()
    with pytest.raises(TraceError, match=r"texts in UTF-16.*write it anew: sqlite3 FILE \.dump"):
        open_path(path, cache=False)


@pytest.mark.parametrize("far", [-(2**63) + 2, 2**63 - 1, 2**40])
def test_correlation_ids_beyond_32_bits_on_one_side(tmp_path: Path, far: int) -> None:
    for side in ("call", "kernel"):
        file = NsysFile()
        file.launch("k", call=(1, 2), kernel=(3, 4))
        if side == "call":
            for n in range(30):
                file.call("cudaLaunchKernel_v7000", 10 + n, 10 + n, correlation=far - (n if far > 0 else -n))
        else:
            file.kernel("k", 30, 40, correlation=far)
        path = file.write(tmp_path / f"{side}.sqlite")
        trace = read_nsys(path)
        assert trace.device["launch"].to_list()[0] == 0
        assert trace.device.equals(read_nsys(path, bulk=False).device)


def test_strings_that_are_null(tmp_path: Path) -> None:
    file = NsysFile()
    file.launch("k", call=(1, 2), kernel=(3, 4))
    file.thread_name("main", 100)
    path = file.write(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE StringIds SET value = NULL")
        connection.commit()
    for trace in (read_nsys(path), read_nsys(path, bulk=False)):
        assert trace.device.height == trace.host.height == 1
    assert "(unknown)" in printed(path)


def test_a_table_of_ncu_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(line([*IDS, *PLACE, "gpu__time_duration.sum"]) + "\n" + line([""] * 11 + ["ns"]) + "\n")
    assert "the table has no rows" in printed(path)


def test_a_table_of_ncu_without_metrics(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        line([*IDS, *PLACE]) + "\n" + line([0, 7, "p", "h", "k", 1, 7, "(1, 1, 1)", "(1, 1, 1)", 0, "9.0"]) + "\n"
    )
    trace = opened(path)
    assert (trace.device.height, trace.counters.height) == (1, 0)


def test_a_snapshot_of_protocol_1(tmp_path: Path) -> None:
    allocator = Allocator()
    allocator.alloc(512)
    value = snapshot(allocator)
    frames = [opened(write(tmp_path / f"p{number}.pickle", value, number)).memory for number in range(6)]
    assert all(frame.equals(frames[4]) for frame in frames)
    assert pickle.dumps(value, 1).startswith(b"}q")


def test_a_curve_whose_clock_was_set_back() -> None:
    assert levels([5.0, 9.0, 1.0], [1.0, 2.0, 3.0], 4) == [3.0, 3.0, 1.0, 2.0]


BAD = {
    "another schema": lambda frame: frame.with_columns(pl.lit("x").alias("start")),
    "a column less": lambda frame: frame.drop("parent"),
    "a column more": lambda frame: frame.with_columns(x=1),
    "row ids behind the end": lambda frame: frame.with_columns(parent=pl.lit(99, dtype=schema.RowId)),
}


@pytest.mark.parametrize("how", BAD)
def test_an_entry_of_the_cache_that_fits_its_checksums_must_fit_the_schema(tmp_path, monkeypatch, how) -> None:
    monkeypatch.setenv("TRACETUI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "MIN_SOURCE_BYTES", 0)
    file = ChromeFile()
    file.operator("aten::mm", 0, 9)
    file.operator("aten::empty", 1, 2)  # columns without values are not written, and it has a parent
    path = file.write(tmp_path / "a.json")
    whole = open_path(path).main
    (entry,) = (tmp_path / "cache").iterdir()
    BAD[how](pl.read_ipc(entry / "host.arrow")).write_ipc(entry / "host.arrow")
    checked = json.loads((entry / "context.json").read_text())
    context = json.loads(checked["context"])
    context["frames"]["host"] = cache._check(entry / "host.arrow")
    checked["context"] = json.dumps(context)
    checked["check"] = zlib.crc32(checked["context"].encode())
    (entry / "context.json").write_text(json.dumps(checked))
    assert open_path(path).main.host.equals(whole.host)


def test_a_damaged_row_of_ncu_teaches_no_host(tmp_path: Path) -> None:
    """Two cells that damage joined put a unit into the host's column, and scrub took it for a name everywhere."""
    path, copy = tmp_path / "a.csv", tmp_path / "b.csv"
    rows = [(n, "k", "Occupancy", "Achieved", "block", "1") for n in range(4)]
    lines = long_table(rows).splitlines()
    lines[2] = lines[2].replace('"train.py","10.1.2.3"', '"train.py"').replace('"k"', '"block"')
    path.write_text("\n".join(lines) + "\n")
    scrub_file(path, copy, Redactor())
    assert "10.1.2.3" not in copy.read_text()
    assert opened(copy).counters["unit"].cast(pl.String).to_list() == opened(path).counters["unit"].to_list()


def test_a_threshold_that_no_float_holds(tmp_path: Path) -> None:
    path = tmp_path / ".tracetui.toml"
    path.write_text("[thresholds]\n'S2.late_percent' = 1" + "0" * 400 + "\n'V2.x' = nan\n")
    found = parse(path)
    assert found.thresholds == {}
    assert "threshold S2.late_percent is no number" in found.problems[0]


@pytest.mark.parametrize("depth", [10, 300, 600, 950, 5000])
@pytest.mark.parametrize("where", ["run.json", "comments.tracetui.jsonl", "trace.json"])
def test_json_of_any_depth_is_scrubbed(tmp_path: Path, depth: int, where: str) -> None:
    """What Python decodes, no recursion of ours need be able to walk through."""
    deep = "[" * depth + '"/home/ada/x/model.pt"' + "]" * depth
    if where == "trace.json":
        inner = json.dumps(f'{{"schema": "tracetui.run/1", "x": {deep}}}')
        content = f'{{"tracetui": {inner}, "traceEvents": [{json.dumps(work(1))}, {json.dumps(work(2))}]}}'
    else:
        content = f'{{"schema": "tracetui.run/1", "x": {deep}}}\n'
    (path := tmp_path / where).write_text(content)
    scrub_file(path, copy := tmp_path / "copy", Redactor())
    assert "ada" not in copy.read_text()
    assert "model" in copy.read_text()


@pytest.mark.parametrize("foreign", ["null", "[1]", '"text"'])
@pytest.mark.parametrize("place", [0, 3])
def test_what_is_no_event_before_an_empty_one_is_counted(tmp_path, path_of_reading, foreign, place) -> None:
    """With braces on lines of their own an empty object looked like the end of the event before it."""
    events = [on_lines(work(n)) for n in range(6)]
    events[place:place] = [foreign] if place == 0 else [foreign, "{}"]
    trace = of_events(tmp_path, events, top=SCHEMA)
    assert (trace.source.events_total, trace.host.height, skipped(trace)) == (7, 6, 1)


def test_an_event_between_damage_and_an_empty_one_is_read(tmp_path: Path, path_of_reading: None) -> None:
    events = [json.dumps(work(n)) for n in range(6)]
    path = tmp_path / "a.json"
    path.write_text('{"traceEvents": [\n' + ",\n".join([*events[:3], "nul", events[3], "{}", *events[4:]]) + "\n]}\n")
    trace = opened(path)
    assert (trace.source.events_total, trace.host.height, skipped(trace)) == (7, 6, 1)


def test_a_lone_brace_between_events_is_counted_in_the_trace_and_its_cut(tmp_path: Path, path_of_reading: None) -> None:
    events = [json.dumps(work(n), separators=(",", ":")) for n in range(6)]
    path, part = tmp_path / "a.json", tmp_path / "b.json"
    path.write_text('{"traceEvents":[' + ",".join([*events[:3], "}", *events[3:]]) + "]}")
    trace = opened(path)
    assert (trace.source.events_total, trace.host.height, skipped(trace)) == (7, 6, 1)
    assert cut(path, part, (0, 10**9)).kept == 6
    assert (opened(part).source.events_total, opened(part).host.height) == (6, 6)


def test_counted_kernels_of_a_trace_that_looks_like_jaxs(tmp_path: Path) -> None:
    file = ChromeFile()
    file.operator("aten::mm", 0, 9)
    file.event("cuda_profiler_range", "gemm", (2, 3), smsp__inst_executed__sum=7)
    file.events.append({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}})
    path = file.write(tmp_path / "a.json")
    assert [trace.info.kind for trace in open_path(path, cache=False).traces] == ["jax", "ncu"]
    assert "gemm" in printed(path)


@pytest.mark.parametrize(
    ("types", "read"), [('[1e+308, -1, "x"]', '[1e+308, -1, "x"]'), ("[0.50, 1E2, -0]", "[0.5, 100, 0]")]
)
def test_numbers_among_types_are_read_alike_on_both_paths(tmp_path, path_of_reading, types, read) -> None:
    event = json.dumps(work(1)).replace('"n": 1', f'"Input Dims": [[2]], "Input type": {types}')
    trace = of_events(tmp_path, map(on_lines, (event, work(2), work(3))), top="\n  ")
    assert trace.host["input_types"].cast(pl.String)[0] == read


def test_a_name_in_a_schema_that_is_no_utf_8_is_scrubbed(tmp_path: Path) -> None:
    file = NsysFile()
    file.launch("gemm", call=(0, 10), kernel=(20, 30))
    file.process("/home/ada/python")
    path, copy = file.write(tmp_path / "a.sqlite"), tmp_path / "b.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE odd_name (processId INTEGER, secret TEXT)")
        connection.execute("INSERT INTO odd_name VALUES (1, '/home/ada/x')")
    path.write_bytes(path.read_bytes().replace(b"odd_name", b"odd\x80name").replace(b"processId I", b"proc\xfessId I"))
    scrub_file(path, copy, Redactor())
    assert b"ada" not in copy.read_bytes()
    assert opened(copy).device.equals(opened(path).device)


def test_one_stream_beyond_32_bits_leaves_the_others_unknown(tmp_path: Path) -> None:
    file = NsysFile()
    for at in (0, 100, 200):
        file.synchronization(at, at + 50)
    file.synchronization(300, 350, stream=2**53)
    assert opened(file.write(tmp_path / "a.sqlite")).device["stream"].to_list() == [None, None, None, 2**53]


def test_a_snapshot_cut_off_within_the_length_of_a_frame(tmp_path: Path) -> None:
    whole = pickle.dumps(snapshot(Allocator()), 4)
    frame = whole.index(b"\x95")
    for end in range(frame, frame + 10):
        loaded = load_plain(whole[:end])
        assert loaded.value is None
        assert loaded.damage


def test_a_damaged_number_is_not_read_by_half(tmp_path: Path, path_of_reading: None) -> None:
    """The fast path took the digits at its beginning for the whole of it."""
    for case in itertools.product(
        ["ts", "dur", "tid"], ["16774.5ize59", "23/*.755", "43008\0\0783.02", "1.5.5", "12-3", "7x"]
    ):
        key, number = case
        events = [on_lines(work(n)) for n in range(6)]
        told = json.dumps(work(2)[key])
        events[2] = events[2].replace(f'"{key}": {told}', f'"{key}": {number}')
        trace = of_events(tmp_path, events, top=SCHEMA)
        assert trace.host["name"].cast(pl.String).to_list() == ["op0", "op1", "op3", "op4", "op5"], case
        assert skipped(trace) == 1, case


def memory_event(at: int, args: dict[str, Any]) -> dict[str, Any]:
    place = {"ts": at, "pid": 1, "tid": 1}
    return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", **place, "args": args}


def test_bytes_that_no_memory_holds_are_unknown(tmp_path: Path, path_of_reading: None) -> None:
    """Two such numbers are no 64 bits together: the memory at a step's start was made a float, and cast back."""
    for case in itertools.product(
        ["Bytes", "Total Allocated", "Total Reserved"], [2**62, -(2**62), 2**61 + 1, -(2**63) + 1]
    ):
        key, number = case
        file = ChromeFile()
        file.step(1, 0, 100)
        file.step(2, 100, 200)
        args = {"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": -512, "Total Allocated": 1024, key: number}
        file.events += [memory_event(at, {"Total Reserved": 0} | args) for at in (5, 105)]
        path = file.write(tmp_path / "a.json")
        trace = opened(path)
        column = {"Bytes": "bytes", "Total Allocated": "allocated", "Total Reserved": "reserved"}[key]
        assert trace.memory[column].to_list() == [None, None], case
        assert [note.count for note in trace.notes if "bytes that no memory holds" in note.reason] == [2], case
        if (key, number) == ("Bytes", 2**62):  # with each of the others the same was read
            printed(path)
            assert "bytes that no memory holds" in to_json(report(open_path(path, cache=False))), case


def test_bytes_of_a_copy_that_no_memory_holds_are_unknown(tmp_path: Path, path_of_reading: None) -> None:
    file = ChromeFile()
    for at, number in enumerate((512, 2**60, -1)):
        place = {"ts": 10 * at, "dur": 5, "pid": 0, "tid": 7}
        args = {"device": 0, "stream": 7, "correlation": at, "bytes": number}
        file.events.append({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", **place, "args": args})
    trace = opened(file.write(tmp_path / "a.json"))
    assert trace.device["bytes"].to_list() == [512, None, None]
    assert [note.count for note in trace.notes if "bytes that no memory holds" in note.reason] == [2]


def test_no_number_of_bytes_is_beyond_64_bits_together_with_another(tmp_path: Path) -> None:
    file = ChromeFile()
    file.step(1, 0, 100)
    args = {"Device Type": 1, "Device Id": 0, "Addr": 1, "Bytes": -(2**62), "Total Allocated": 2**62}
    file.events.append(memory_event(5, args))
    printed(file.write(tmp_path / "a.json"))


@pytest.mark.parametrize("value", ["1" + "0" * 307, "-1", "1e30"])
@pytest.mark.parametrize(
    "attribute", ["clock_rate", "memory_clock_rate", "multiprocessor_count", "warp_size", "compute_capability_minor"]
)
def test_an_impossible_property_of_a_gpu_is_unknown(tmp_path: Path, attribute: str, value: str) -> None:
    metrics = {"clock_rate": "1000", "memory_clock_rate": "500", "global_memory_bus_width": "64",
               "multiprocessor_count": "80", "warp_size": "32", "compute_capability_major": "9",
               "compute_capability_minor": "0"}  # fmt: skip
    said = metrics | {attribute: value}
    path = tmp_path / "a.csv"
    table = wide_table({f"device__attribute_{name}": "" for name in said}, [("gemm", list(said.values()))])
    path.write_text(table.replace('"8.6"', '""'))
    trace = opened(path)
    (device,) = trace.info.devices
    found = (device.clock_hz, device.memory_bandwidth, device.sm_count, device.warp_size, device.compute_capability)
    unknown = ["clock_rate", "memory_clock_rate", "multiprocessor_count", "warp_size", "compute_capability_minor"]
    assert found == tuple(
        None if name == attribute else known
        for name, known in zip(unknown, (10**6, 8 * 10**6, 80, 32, "9.0"), strict=True)
    )
    assert any("property of a GPU" in note.reason for note in trace.notes)


@pytest.mark.parametrize(("process", "number"), [(2**64, 0), (2**63, 0), (7, int("9" * 30)), (7, int("9" * 19))])
def test_an_accelerator_of_endless_number(tmp_path: Path, process: int, number: int) -> None:
    named = {"ph": "M", "name": "process_labels", "pid": process, "args": {"labels": f"NPU {number}"}}
    path = tmp_path / "a.json"
    work_there = {"ph": "X", "name": "MatMul", "ts": 5, "dur": 1, "pid": process, "tid": 2, "args": {}}
    path.write_text(json.dumps({"traceEvents": [named, work(1), work_there]}))
    assert opened(path).host.height >= 1


@pytest.mark.parametrize("number", [10**30, 1e300, "9" * 30])
def test_a_property_in_a_header_beyond_64_bits_is_unknown(tmp_path: Path, number: Any) -> None:
    file = ChromeFile(deviceProperties=[{"id": 0, "name": "GPU", "numSms": number, "totalGlobalMem": number}])
    file.operator("aten::mm", 0, 9)
    (device,) = opened(file.write(tmp_path / "a.json")).info.devices
    assert (device.sm_count, device.memory_bytes) == (None, None)


def test_what_stands_among_the_arguments_is_no_property_of_the_event(tmp_path: Path) -> None:
    for case in itertools.product(
        [("name", "inner"), ("ts", 7), ("dur", 1), ("pid", 9), ("tid", 9), ("cat", "kernel"), ("ph", "X")],
        [False, True],
        [False, True],
    ):
        (key, value), first, nested = case
        events = [work(n) for n in range(6)]
        del events[2][key]
        events[2]["args"] = {"note": "{", "more": {key: value}} if nested else {key: value, "more": {}}
        if first:
            events = [{"ph": "X", "args": event.pop("args"), **event} for event in events]
        fast = of_events(tmp_path, map(on_lines, events), top=SCHEMA)
        with patch.object(reader, "scan", side_effect=Irregular("tested")):
            slow = opened(tmp_path / "a.json")
        for frame in ("host", "device"):
            assert getattr(fast, frame).equals(getattr(slow, frame)), case
        assert fast.host.height + fast.device.height == slow.host.height + slow.device.height >= 5, case


def test_a_bracket_that_an_event_follows_does_not_end_the_events(tmp_path: Path, path_of_reading: None) -> None:
    """Behind the first event it made the rest of a file the header's, of which nothing was said."""
    for case in itertools.product([0, 1, 5], ["]", "],", ",]", "\n]\n"], [",\n", ", "]):
        place, bracket, separator = case
        events = [json.dumps(work(n)) for n in range(6)]
        before, behind = separator.join(events[:place]), separator.join(events[place:])
        path = tmp_path / "a.json"
        path.write_text('{"traceEvents": [' + before + bracket + behind + '], "world_size": 8}')
        assert opened(path).host["name"].cast(pl.String).to_list() == [f"op{n}" for n in range(6)], case


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"ph": "X", ', '"ph": "X". '),
        ('"ph": "X", ', '"ph": "X"\0'),
        ('"cat": "kernel", ', '"cat": "kernel"\0'),
        (', "name"', ', \0\0"name"'),
        (', "name"', ', \ufeff"name"'),
        (', "name"', ' "name"'),
        ('"correlation"', '\0"correlation"'),
        (', "stream"', '\0"stream"'),
        (', "ts"', ' "ts"'),
    ],
)
def test_scrub_leaves_a_reader_the_words_by_which_it_knows_a_damaged_event(tmp_path: Path, old: str, new: str) -> None:
    """A comma that damage took made its neighbours' names strings without a key, of which no letter was left."""
    file = ChromeFile()
    for at in range(0, 60, 10):
        file.launch("gemm", call=(at, at + 2), kernel=(at + 4, at + 6))
    plain = file.write(tmp_path / "plain.json").read_text()
    document = json.loads(plain)
    lines = [json.dumps(event) for event in document["traceEvents"]]
    assert old in lines[5]
    lines[5] = lines[5].replace(old, new, 1)
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    path.write_text('{"traceEvents": [\n' + ",\n".join(lines) + "\n]}")
    scrub_file(path, copy, Redactor())
    one, two = opened(path), opened(copy)
    for frame in ("host", "device"):
        a, b = getattr(one, frame), getattr(two, frame)
        assert a.drop("name", "offset").equals(b.drop("name", "offset"))


@pytest.mark.parametrize("damage", ["", "\0", ". ", "\ufeff", '"x" '])
def test_scrub_takes_a_secret_beside_damage_though_its_neighbours_are_words_of_a_trace(tmp_path, damage) -> None:
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    event = json.dumps(work(2) | {"args": {"stream": 7, "password": "zq81-kept", "device": 0}})
    for torn in (
        event.replace('"stream": 7, ', f'"stream": 7{damage} '),
        event.replace('"password": ', f'"password"{damage} '),
        event.replace('"password": ', f'"password": {damage}'),
        event.replace('"zq81-kept", ', f'"zq81-kept"{damage} '),
    ):
        path.write_text('{"traceEvents": [\n' + ",\n".join([json.dumps(work(1)), torn, json.dumps(work(3))]) + "\n]}")
        scrub_file(path, copy, Redactor(), force=True)
        assert "zq81" not in copy.read_text()


def test_calls_of_rocprof_without_names_are_printed(tmp_path: Path) -> None:
    (tmp_path / "1_hip_api_trace.csv").write_text(
        '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\nHIP,,7,7,1,0,5\n'
    )
    assert "CUDA API calls" not in printed(tmp_path / "1_hip_api_trace.csv")


def test_a_damaged_header_of_rocprof_costs_no_count(tmp_path: Path) -> None:
    """Kernels without starts are skipped, whether or not they have numbers."""
    (tmp_path / "1_kernel_trace.csv").write_text(
        '"Kind","Agent_Id","Queue_Id","Dispatch_Id","Kernel_Name","Start_Time","End_Timestamp"\n"K",2,1,1,"f",5,9\n"K",2\n'
    )
    trace = opened(tmp_path / "1_kernel_trace.csv")
    assert (trace.source.events_parsed, trace.source.events_total, skipped(trace)) == (0, 2, 2)


def test_counters_of_rocprof_without_the_title_of_their_values(tmp_path: Path) -> None:
    (tmp_path / "1_counter_collection.csv").write_text(
        '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Name",'
        '"Workgroup_Size","Counter_Name","Counter_Velue","Start_Timestamp","End_Timestamp"\n'
        '1,1,2,1,7,7,64,"f",64,"SQ_WAVES",5,5,9\n'
    )
    assert opened(tmp_path / "1_counter_collection.csv").device["name"].to_list() == ["f"]


def test_what_damage_makes_look_like_the_end_of_the_events_is_none(tmp_path: Path) -> None:
    shape = {"Input Strides": [[1]], "Input Dims": [[1]]}
    events = [{"ph": "X", "cat": "cpu_op", "name": n, "pid": 1, "tid": 1, "ts": at, "dur": 1, "args": shape}
              for at, n in enumerate("abcd")]  # fmt: skip
    damaged = json.dumps(events).replace("[[1]]", "[[1}]", 3).replace("[[1}]", "[[1]]", 2)  # in the second event
    (tmp_path / "a.json").write_text(f'{{"traceEvents": {damaged}, "traceName": "t"}}')
    trace = opened(tmp_path / "a.json")
    assert trace.host["name"].to_list() == ["a", "b", "c", "d"]


def test_a_counted_kernel_alone_keeps_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Index,KernelName,gpu-id,pid,grd,wgr,Waves\n0,k,0,1,64,64,5\n1,k,0\n")
    trace = opened(tmp_path / "a.csv")
    assert (trace.source.events_parsed, trace.source.events_total, skipped(trace)) == (1, 2, 1)


@pytest.mark.parametrize("line", ["07-24-8921 10:00:00", "07-24-2021 10:00:00"])
def test_a_board_in_a_far_year_or_of_enormous_power(tmp_path: Path, line: str) -> None:
    said = "RAM 1/9MB VDD_IN 99999999999999999mW/1mW\n"
    (tmp_path / "a.log").write_text(f"07-24-2021 09:00:00 {said}{line} {said}")
    assert opened(tmp_path / "a.log").counters.height == 4
