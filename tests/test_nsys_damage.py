"""Exports of Nsight Systems that are damaged, locked, hostile, or something else; and what must not leave them."""

import gzip
import os
import random
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from nsys_file import NsysFile, global_tid

from tracetui.parsers import Trace
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.nsys import scan
from tracetui.parsers.nsys.privacy import HIDDEN, is_environment
from tracetui.parsers.nsys.reader import read_nsys
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.runs import cache
from tracetui.parsers.trace import FRAMES


def large(rows: int = 3000) -> NsysFile:
    """Kernels with their calls and ranges, over many pages."""
    file = NsysFile()
    for number in range(rows):
        at = number * 1000
        with file.range(f"layer {number % 7}", at, at + 900):
            file.launch(f"kernel {number % 50}", call=(at + 10, at + 20), kernel=(at + 100, at + 200 + number % 13))
    return file


def same(a: Trace, b: Trace) -> None:
    for frame in FRAMES:
        assert getattr(a, frame).equals(getattr(b, frame)), frame
    assert (a.info, a.source) == (b.info, b.source)
    # threads find things in any order
    assert counts(a) == counts(b)


def counts(trace: Trace) -> dict[tuple[str, str], int]:
    return {(note.kind, note.reason): note.count for note in trace.notes}


def error(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        read_nsys(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


# other files


def test_a_git_lfs_pointer(tmp_path: Path) -> None:
    """Trap 18."""
    path = tmp_path / "a.sqlite"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "git lfs pull" in error(path)


def test_databases_of_other_programs(tmp_path: Path) -> None:
    """Trap 18."""
    path = tmp_path / "foreign.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE users (id INTEGER)")
    connection.commit()
    connection.close()
    assert error(path).startswith("an SQLite database of another program")
    path = tmp_path / "dlprof.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE op_instances (id INTEGER)")
    connection.execute("CREATE TABLE kernels (id INTEGER)")
    connection.commit()
    connection.close()
    assert error(path).startswith("a DLProf database")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "the file is empty"), (b"hello", "not an SQLite database"), (b"SQLite format 3\x00", "can't be read")],
)
def test_no_database(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)
    assert said in error(path)


def test_a_database_that_another_program_is_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetui.parsers.nsys.database.LOCK_WAIT_SECONDS", 0.05)
    path = large(3).write(tmp_path / "a.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        assert "another program is writing" in error(path)
    finally:
        connection.close()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert error(tmp_path / "none.sqlite") == "no such file or directory"


# damage


@pytest.mark.parametrize("share", [0.15, 0.5, 0.8, 0.97])
def test_a_database_that_lost_its_end(tmp_path: Path, share: float) -> None:
    path = large().write(tmp_path / "a.sqlite")
    whole = read_nsys(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    trace = read_nsys(path)
    same(trace, read_nsys(path, bulk=False))
    rows = trace.device.height + trace.host.height
    assert 0 < rows < 9000
    assert rows >= 9000 * (share - 0.15)
    assert any(note.kind == "skipped" and "damaged" in note.reason for note in trace.notes)
    assert trace.source.events_total > trace.source.events_parsed == rows
    everything = set(whole.device.select("start", "duration").rows())
    assert set(trace.device.select("start", "duration").rows()) <= everything


def test_damaged_pages_in_the_middle(tmp_path: Path) -> None:
    """What stands behind a damaged page is found again, and what is lost is counted."""
    path = large().write(tmp_path / "a.sqlite")
    content = bytearray(path.read_bytes())
    pages, noise = len(content) // 4096, random.Random(3)
    for page in (pages // 3, pages // 2, 3 * pages // 4):
        content[page * 4096 : (page + 1) * 4096] = noise.randbytes(4096)
    path.write_bytes(content)
    trace = read_nsys(path)
    same(trace, read_nsys(path, bulk=False))
    rows = trace.device.height + trace.host.height
    assert 8000 < rows < 9000
    skipped = sum(note.count for note in trace.notes if note.kind == "skipped")
    assert 9000 - rows <= skipped <= 9000 - rows + 10


def test_no_damage_makes_a_traceback(tmp_path: Path) -> None:
    content = large(400).write(tmp_path / "whole.sqlite").read_bytes()
    chance = random.Random(7)
    path = tmp_path / "a.sqlite"
    opened = 0
    for _ in range(25):
        broken = bytearray(content)
        for _ in range(chance.choice((1, 5, 50))):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        path.write_bytes(broken[: chance.choice((len(broken), chance.randrange(len(broken))))])
        try:
            read_nsys(path)
            opened += 1
        except TraceError as problem:
            assert "\n" not in str(problem)  # noqa: PT017  either outcome is fine
    assert opened > 8


def test_a_compressed_file_that_ends_early(tmp_path: Path) -> None:
    path = large().write(tmp_path / "a.sqlite.gz")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    trace = read_nsys(path)
    assert 0 < trace.device.height + trace.host.height < 9000
    assert any("compressed stream ends early" in note.reason for note in trace.notes)


def test_values_of_another_type_than_their_column(tmp_path: Path) -> None:
    """Read one at a time and counted; what is a number in another dress stays one."""
    file = large(5)
    file.kernel(
        "k", 10, 20, correlationId="text", streamId=7.0, gridX="12", deviceId=2.5, registersPerThread=b"\xff\x00"
    )
    file.kernel("k", "abc", 20)  # type: ignore[arg-type]
    columns = "start end deviceId streamId correlationId globalPid demangledName gridX gridY gridZ registersPerThread"
    file.declare("CUPTI_ACTIVITY_KIND_KERNEL", " ".join(f"{name}:BLOB" for name in columns.split()))
    path = file.write(tmp_path / "a.sqlite")
    trace = read_nsys(path)
    same(trace, read_nsys(path, bulk=False))
    row = trace.device.filter(pl.col("duration") == 10).to_dicts()[0]
    assert (row["correlation"], row["stream"], row["device"], row["registers"]) == (None, 7, None, None)
    assert row["grid"] == [12, 1, 1]
    notes = counts(trace)
    assert notes["repaired", "value that is no whole number was taken for unknown"] == 4
    assert notes["repaired", "number that was stored as another type"] == 2
    assert notes["skipped", "kernel without a start or an end"] == 1


def test_text_where_a_whole_number_stood_in_every_row_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bulk road takes its types from the first rows, and must notice."""
    monkeypatch.setattr(scan, "RANGE_ROWS", 400)
    file = large(1000)
    file.declare(
        "CUPTI_ACTIVITY_KIND_KERNEL", "start:BLOB end:BLOB correlationId:BLOB globalPid:BLOB demangledName:BLOB"
    )
    file.tables["CUPTI_ACTIVITY_KIND_KERNEL"][701]["correlationId"] = b"\xff\xfe"
    file.tables["CUPTI_ACTIVITY_KIND_KERNEL"][801]["correlationId"] = None
    path = file.write(tmp_path / "a.sqlite")
    trace = read_nsys(path)
    same(trace, read_nsys(path, bulk=False))
    assert trace.device["correlation"].null_count() == 2


def test_many_ranges_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows read in many pieces, with holes in their numbers, come out as in one."""
    path = large(1000).write(tmp_path / "a.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid BETWEEN 100 AND 900")
    connection.execute("UPDATE NVTX_EVENTS SET rowid = rowid + 5000 WHERE rowid > 500")
    connection.commit()
    connection.close()
    whole = read_nsys(path)
    assert whole.device.height == 199
    for rows in (37, 333):
        monkeypatch.setattr(scan, "RANGE_ROWS", rows)
        same(read_nsys(path), whole)


@pytest.mark.parametrize("columns", ["rowid INTEGER, _rowid_ INTEGER, oid INTEGER, ", "rowid INTEGER, "])
def test_tables_whose_rows_have_other_numbers(tmp_path: Path, columns: str) -> None:
    path = tmp_path / "a.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE NVTX_EVENTS ({columns}start INTEGER, end INTEGER, eventType INTEGER, text TEXT)")
    marks = "".join("NULL, " for _ in range(columns.count(",")))
    connection.execute(f"INSERT INTO NVTX_EVENTS VALUES ({marks}1, 2, 59, 'a'), ({marks}3, 4, 59, 'b')")
    connection.execute("CREATE TABLE OSRT_API (start INTEGER PRIMARY KEY, end INTEGER) WITHOUT ROWID")
    connection.execute("INSERT INTO OSRT_API VALUES (7, 8)")
    connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER)")
    far = "(-9223372036854775808, 1, 2), (9223372036854775807, 3, 4)"
    connection.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (rowid, start, end) VALUES {far}")
    connection.commit()
    connection.close()
    for bulk in (True, False):
        trace = read_nsys(path, bulk=bulk)
        assert trace.host["start"].sort().to_list() == [1, 3, 7]
        assert trace.device["start"].to_list() == [1, 3]


# what a file holds is never run


def test_views_and_generated_columns_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE ProcessStreams (globalPid INTEGER)")
    connection.execute("CREATE TABLE OSRT_API (start INTEGER, end INTEGER)")
    connection.execute("INSERT INTO OSRT_API (start, end) VALUES (1, 2)")
    fails = "abs(-9223372036854775808)"
    connection.execute(f"ALTER TABLE OSRT_API ADD COLUMN nameId INTEGER GENERATED ALWAYS AS ({fails}) VIRTUAL")
    endless = (
        "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n"
    )
    connection.execute(f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    connection.execute("CREATE VIRTUAL TABLE NVTX_EVENTS USING fts5(start, end, eventType, text)")
    connection.execute("INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 'x')")
    connection.commit()
    connection.close()
    for bulk in (True, False):
        trace = read_nsys(path, bulk=bulk)
        assert trace.device.height == 0
        assert trace.host.select("kind", "start").rows() == [("os", 1)]


def test_a_file_is_never_changed(tmp_path: Path) -> None:
    path = large(50).write(tmp_path / "a.sqlite")
    before = path.read_bytes(), sorted(tmp_path.iterdir())
    read_nsys(path)
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before


# logs beside the database


def test_rows_that_still_stand_in_the_write_ahead_log(tmp_path: Path) -> None:
    path = large(50).write(tmp_path / "a.sqlite")
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("PRAGMA wal_autocheckpoint=0")
    writer.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end) VALUES (900000, 900001)")
    writer.commit()
    try:
        assert read_nsys(path).device.height == 51
    finally:
        writer.close()


def test_a_database_in_log_mode_without_its_log(tmp_path: Path) -> None:
    path = large(50).write(tmp_path / "a.sqlite")
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.close()
    assert read_nsys(path).device.height == 50
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.sqlite"]


def test_a_log_that_cannot_be_opened_is_said_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(50).write(tmp_path / "a.sqlite")
    (tmp_path / "a.sqlite-journal").write_bytes(b"x" * 1000)
    real = sqlite3.connect

    def refuses(name: str, **more: Any) -> sqlite3.Connection:
        if "immutable" not in name:
            raise sqlite3.OperationalError("unable to open database file")
        return real(name, **more)

    monkeypatch.setattr("tracetui.parsers.nsys.database.sqlite3.connect", refuses)
    trace = read_nsys(path)
    assert trace.device.height == 50
    assert any("journal" in note.reason for note in trace.notes)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    path = large(50).write(tmp_path / "a.sqlite")
    tmp_path.chmod(0o500)
    try:
        assert read_nsys(path).device.height == 50
    finally:
        tmp_path.chmod(0o700)


def test_names_of_files_that_mean_something_in_a_uri(tmp_path: Path) -> None:
    folder = tmp_path / "a?b#c %41 ü"
    folder.mkdir()
    path = large(5).write(folder / "x?mode=rwc&y#.sqlite")
    assert read_nsys(path).device.height == 5


# without the driver


def test_without_the_bulk_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(50).write(tmp_path / "a.sqlite")
    fast = read_nsys(path)
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite", None)
    same(read_nsys(path), fast)


def test_a_driver_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(50).write(tmp_path / "a.sqlite")
    fast = read_nsys(path)
    monkeypatch.setattr("adbc_driver_sqlite._driver_path", lambda: str(tmp_path / "no-such-library.so"))
    same(read_nsys(path), fast)


# progress and giving up


def test_progress_reaches_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "RANGE_ROWS", 500)
    path = large().write(tmp_path / "a.sqlite")
    seen: list[Progress] = []
    read_nsys(path, Watch(seen.append))
    reading = [report for report in seen if report.stage == "reading"]
    assert [report.done for report in reading] == sorted(report.done for report in reading)
    assert reading[-1].done == reading[-1].total == path.stat().st_size
    assert reading[-1].events == 9000
    assert seen[-1].stage == "linking"


def test_giving_up_keeps_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "RANGE_ROWS", 500)
    path = large().write(tmp_path / "a.sqlite")
    cancel = threading.Event()
    trace = read_nsys(path, Watch(lambda report: cancel.set() if report.events else None, cancel))
    assert trace.source.partial
    assert 0 < trace.device.height < 3000


def test_giving_up_before_anything_was_read(tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    path = large(1).write(tmp_path / "a.sqlite.gz")
    with pytest.raises(Cancelled):
        read_nsys(path, Watch(None, cancel))


# nothing leaks

SECRET = "EXAMPLE_SECRET=hunter2"


def leaky(tmp_path: Path) -> Path:
    """The environment of the profiled program wherever nsys puts it, and where a program might."""
    block = f"PATH=/usr/bin\x00HOME=/root\x00{SECRET}\x00LANG=C"
    file = large(2000)
    file.string(block)
    file.string(SECRET)
    for name in ("PROCESS_0:ENVIRONMENT", "PROCESS_0:ENVIRONMENT_1", "PROCESS_0:ARGUMENT_1", "CAPTURE_EVENT_TYPE"):
        file.capture_setting(name, SECRET)
    file.capture_setting(SECRET, "true")
    for name in ("EnvironmentVariables", "CpuDescription", "OsDescription", "Hostname"):
        file.system(name, block)
    file.setting("EXPORT_PLATFORM", SECRET)
    file.setting("EXPORT_USER", "hunter2")
    file.diagnostic(f"Process was launched with {SECRET}", severity=2)
    file.diagnostic(block, severity=3)
    file.process(SECRET)
    file.thread_name(block, 100)
    file.push_pop(block, 1, 5)
    file.push_pop(block + "x", 1, 5, registered=True)
    file.push_pop(f"{SECRET}, op_id = 4", 6, 7)
    file.kernel(block, 5, 6)
    file.domain(block, 3)
    file.push_pop("in a domain", 8, 9, domain=3)
    file.nvtx(33, SECRET, 0, category=1)
    return file.write(tmp_path / "a.sqlite")


@pytest.mark.parametrize("bulk", [True, False])
def test_no_environment_variable_is_ever_shown_or_kept(tmp_path, monkeypatch, bulk) -> None:
    """Trap 26."""
    monkeypatch.setenv("TRACETUI_CACHE_DIR", str(tmp_path / "cache"))
    path = leaky(tmp_path)
    trace = read_nsys(path, bulk=bulk)
    for frame in FRAMES:
        assert "hunter2" not in getattr(trace, frame).write_json(), frame
    assert "hunter2" not in repr((trace.info, trace.notes, trace.source))
    assert HIDDEN in trace.host["name"].to_list()
    assert HIDDEN in trace.device["name"].to_list()
    cache.store(cache.key_of(path), trace)
    kept = [entry for entry in (tmp_path / "cache").rglob("*") if entry.is_file()]
    assert kept
    for entry in kept:
        assert b"hunter2" not in entry.read_bytes(), entry


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("PATH=/usr/bin", True),
        ("A=1\x00B=2", True),
        ("x\x00B=2\x00", True),
        ("A=1\nB=2\nC=3", True),
        ("AWS_SECRET_ACCESS_KEY=abc", True),
        ("run with GITHUB_TOKEN=ghp_x", True),
        ("password = letmein", True),
        ("forward, batch=4, heads=8, d=64", False),
        ("max_token=512", False),
        ("num_tokens=[3, 4]", False),
        ("lr=1e-4", False),
        ("void gemm<(int)4, a == b>(T1)", False),
        ("bool operator==(const A&)", False),
        ("a\x00b", False),
        ("", False),
    ],
)
def test_what_counts_as_environment(text: str, hidden: bool) -> None:
    assert is_environment(text) is hidden


def test_temporary_files_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    during: list[str] = []
    path = large(500).write(tmp_path / "a.sqlite.gz")

    def look(report: Progress) -> None:
        during.extend(str(entry) for entry in folder.rglob("*"))
        assert all(entry.stat().st_mode & 0o077 == 0 for entry in folder.iterdir())

    assert read_nsys(path, Watch(look)).device.height == 500
    assert during
    assert list(folder.iterdir()) == []
    (tmp_path / "b.sqlite.gz").write_bytes(gzip.compress(b"SQLite format 3\x00" + b"\xff" * 5000))
    with pytest.raises(TraceError):
        read_nsys(tmp_path / "b.sqlite.gz")
    assert list(folder.iterdir()) == []


def test_no_room_to_inflate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(5).write(tmp_path / "a.sqlite.gz")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert "could not be inflated" in error(path)


def test_processes_of_another_machine_keep_their_numbers(tmp_path: Path) -> None:
    """The upper bits of a global id are the machine's: the process is what the system calls it."""
    file = NsysFile()
    file.row("OSRT_API", start=1, end=2, globalTid=global_tid(7, 8) | 3 << 56)
    file.row("OSRT_API", start=1, end=2, globalTid=None)
    trace = read_nsys(file.write(tmp_path / "a.sqlite"))
    assert trace.host.select("process", "thread").rows() == [(None, None), (7, 8)]


def test_times_that_no_clock_shows(tmp_path: Path) -> None:
    file = NsysFile()
    file.gpu()
    file.launch("a", call=(10, 20), kernel=(30, 60))
    file.launch("b", call=(-(2**63), 2**63 - 1), kernel=(2**63 - 1000, 2**63 - 1))
    file.push_pop("c", 2**62, None)
    trace = read_nsys(file.write(tmp_path / "a.sqlite"))
    assert trace.device.select("start", "duration").rows() == [(30, 30)]
    assert trace.host.select("start", "duration").rows() == [(10, 10)]
    assert (trace.source.events_total, trace.source.events_parsed) == (5, 2)
    assert counts(trace) == {
        ("skipped", f"{what} at a time that no clock shows"): 1 for what in ("kernel", "API call", "NVTX range")
    }


def test_a_view_in_the_place_of_a_table_is_said(tmp_path: Path) -> None:
    path = large(3).write(tmp_path / "a.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO KERNELS")
    connection.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM KERNELS")
    connection.commit()
    connection.close()
    trace = read_nsys(path)
    assert not trace.device.height
    assert counts(trace).items() >= {("missing", "view in the place of a table, which is not read"): 1}.items()


def test_a_damaged_list_of_tables(tmp_path: Path) -> None:
    """Tables before the damage are read."""
    file = large(50)
    for number in range(60):  # the list takes many pages
        file.declare(f"OTHER_{number}", " ".join(f"column_{number}_{place}" for place in range(40)))
    path = file.write(tmp_path / "a.sqlite")
    connection = sqlite3.connect(path)
    leaves = "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema' AND pagetype = 'leaf' ORDER BY path"
    pages = connection.execute(leaves).fetchall() if "ENABLE_DBSTAT_VTAB" in _options(connection) else []
    connection.close()
    if not pages:
        pytest.skip("this SQLite can't say which page is which")
    (page,) = pages[5]
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    trace = read_nsys(path)
    assert trace.device.height == 50
    assert any("list of tables" in note.reason for note in trace.notes)


def _options(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("PRAGMA compile_options")}
