"""Odd places of a file in which something private may stand: none is left in the copy."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ncu_file import long_table
from nsys_file import NsysFile
from sample_runs import recorded

from tracetui.app.cli.main import main
from tracetui.collectors.scrub import Scrubbed, scrub, scrub_file
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers import open_path
from tracetui.parsers.runs.detect import files_below

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hf_Qzabcdefghijklmnop1234"


@pytest.mark.parametrize("key", ["ph", "s", "bp", "ts", "displayTimeUnit", "schema", "status", "trace_id"])
def test_keys_whose_values_stay_hide_nothing(tmp_path: Path, key: str) -> None:
    path, copy = tmp_path / "a.json", tmp_path / "b.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}
    said = {
        "a": {key: SECRET},
        "b": {key: "failed at /home/zqada/x.py"},
        "c": {key: ["ada@zqnode"]},
        "d": {key: "finished"},
    }
    path.write_text(json.dumps({"traceEvents": [{**event, "args": said}], key: SECRET}))
    scrub_file(path, copy, Redactor())
    held = copy.read_text()
    assert SECRET not in held
    assert "zqada" not in held
    assert "zqnode" not in held
    assert json.loads(held)["traceEvents"][0]["args"]["d"] == {key: "finished"}


STATEMENTS = {
    "a default": f"CREATE TABLE t (a TEXT DEFAULT '{SECRET}', b)",
    "a table's name": f'CREATE TABLE "{SECRET}" (a)',
    "a column's name": f'CREATE TABLE t ("{SECRET}" TEXT, b)',
    "the only column's name": f'CREATE TABLE t ("{SECRET}" TEXT)',
    "a comment": f"CREATE TABLE t (a /* {SECRET} */, b)",
    "a condition": f"CREATE TABLE t (a CHECK (a != '{SECRET}'))",
    "a generated column": f"CREATE TABLE t (a, b AS ('{SECRET}' || a))",
    "a view": f"CREATE VIEW v AS SELECT '{SECRET}' AS a",
    "a trigger": f"CREATE TRIGGER g AFTER INSERT ON StringIds BEGIN SELECT '{SECRET}'; END",
    "an index's name": f'CREATE INDEX "{SECRET}" ON StringIds(value)',
    "an index's condition": f"CREATE INDEX i ON StringIds(value) WHERE value != '{SECRET}'",
    "a number's column": f"CREATE TABLE t (a INTEGER, b REAL); INSERT INTO t VALUES ('{SECRET}', '{SECRET}')",
    "bytes": f"CREATE TABLE t (a); INSERT INTO t VALUES (CAST('{SECRET}' AS BLOB))",
    "a name in bytes": f"INSERT INTO StringIds VALUES (900, CAST('{SECRET}' AS BLOB))",
    "bytes of UTF-16": f"CREATE TABLE t (a); INSERT INTO t VALUES (x'{SECRET.encode('utf-16-le').hex()}')",
    "packed bytes": f"CREATE TABLE t (a); INSERT INTO t VALUES (x'{gzip.compress(SECRET.encode()).hex()}')",
    "a removed row": f"CREATE TABLE t (a); INSERT INTO t VALUES ('{SECRET}'); DELETE FROM t",
    "statistics": f"CREATE TABLE t (a, b); CREATE INDEX i ON t(a); INSERT INTO t VALUES ('{SECRET}', 1); ANALYZE",
}


@pytest.mark.parametrize("place", STATEMENTS)
def test_no_place_of_a_database_hides_anything(tmp_path: Path, place: str) -> None:
    file = NsysFile()
    file.launch("gemm", call=(10, 20), kernel=(30, 60))
    path = file.write(tmp_path / "n.sqlite")
    whole = open_path(path, cache=False).main
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(STATEMENTS[place])
        connection.commit()
    copy = scrub_file(path, tmp_path / "copy.sqlite", Redactor()).target
    content = copy.read_bytes()
    for part in (SECRET.encode(), SECRET.encode("utf-16-le"), gzip.compress(SECRET.encode())[10:-8]):
        assert part not in content
    after = open_path(copy, cache=False).main
    assert after.device.equals(whole.device)
    assert after.host.equals(whole.host)


def test_a_table_of_events_is_written_anew_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "n.sqlite"
    path.write_bytes(gzip.decompress(recorded("nsys/graph_node.sqlite.gz").read_bytes()))
    whole = open_path(path, cache=False).main
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN \"{SECRET}\" TEXT DEFAULT 'x'")
        before = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        connection.commit()
    copy = scrub_file(path, tmp_path / "copy.sqlite", Redactor()).target
    assert SECRET.encode() not in copy.read_bytes()
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == before
    after = open_path(copy, cache=False).main
    assert after.device.drop("name").equals(whole.device.drop("name"))


def test_names_of_files_say_nothing_of_the_machine(tmp_path: Path) -> None:
    run = tmp_path / "of ada@zqnode"
    names = (
        "zqlab-7_4711.1712345678901.pt.trace.json", "plugins/profile/2024_05_01/zqjax8.trace.json", "rank0.json",
        "ip-10-83-0-7.json", "zq9.corp.example.json", "rank1_7.1712345678901.pt.trace.json",
    )  # fmt: skip
    for name in names:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text('{"traceEvents": [], "note": "zqlab-7 asks zqjax8"}')
    found = [one for one in scrub([run], None, redactor=Redactor()) if isinstance(one, Scrubbed)]
    copies = {one.source.relative_to(run).as_posix(): one.target for one in found}
    assert copies.keys() == set(names)
    assert not any("zq" in str(target.relative_to(tmp_path)) or "10-83" in target.name for target in copies.values())
    kept = copies["plugins/profile/2024_05_01/zqjax8.trace.json"].relative_to(copies["rank0.json"].parent)
    assert kept.parent.as_posix() == "plugins/profile/2024_05_01"
    assert kept.name.endswith(".trace.json")
    assert copies[names[0]].name.endswith("_4711.1712345678901.pt.trace.json")
    assert {copies[name].name for name in (names[2], names[5])} == {names[2], names[5]}
    assert not any("zq" in target.read_text() for target in copies.values())
    (alone,) = scrub([run / names[0]], None, redactor=Redactor())
    assert isinstance(alone, Scrubbed)
    assert alone.target.name == "host-1_4711.1712345678901.scrubbed.pt.trace.json"


def test_a_source_page_of_ncu_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    text = gzip.decompress(recorded("ncu/source_lines.csv.gz").read_bytes()).decode()
    whole = open_path(written(path, text), cache=False).main
    rows = text.split("\n")
    at = next(n for n, row in enumerate(rows) if row.startswith('"File'))
    rows[at] = '"File Path","/home/zqada/secret/t.cu"'
    rows.insert(at, "epoch 1 of ada@zqnode")
    copy = scrub_file(written(path, "\n".join(rows)), tmp_path / "copy.csv", Redactor()).target
    assert "zq" not in copy.read_text()
    found = open_path(copy, cache=False).main
    assert found.device.equals(whole.device)
    columns = ["device_row", "metric", "value"]
    assert found.counters.select(columns).equals(whole.counters.select(columns))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_headers_of_ncu_and_keys_of_bytes(tmp_path: Path) -> None:
    table = long_table([(0, "k", "Occupancy", "Achieved", "block", "1")])
    path = written(tmp_path / "a.csv", table.replace('"Metric Value"', f'"Metric Value","{SECRET}"', 1))
    copy = scrub_file(path, tmp_path / "b.csv", Redactor()).target
    assert SECRET not in copy.read_text()
    assert open_path(copy, cache=False).main.counters.height == 1
    value = {"segments": [], "device_traces": [[]], "x": {SECRET.encode(): 1, f"{SECRET}2".encode(): 2}}
    (path := tmp_path / "m.pickle").write_bytes(pickle.dumps(value))
    content = pickle.loads(scrub_file(path, tmp_path / "c.pickle", Redactor()).target.read_bytes())
    assert content["x"] == {b"***": 1, b"***2": 2}


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert main(["scrub", str(tmp_path / "pipe.json")]) == 1
    assert "neither a file nor a folder" in capsys.readouterr().err


def test_the_current_folder_is_copied_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "run").mkdir()
    (folder / "t.json").write_text('{"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]}')
    monkeypatch.chdir(folder)
    assert main(["scrub", "."]) == 0
    assert (tmp_path / "run.scrubbed" / "t.json").exists()


def test_a_link_that_leads_back_up_shows_no_file_twice(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{}")
    (tmp_path / "in").mkdir()
    (tmp_path / "self").symlink_to(".")
    (tmp_path / "in" / "up").symlink_to("..")
    assert list(files_below(tmp_path)) == [tmp_path / "t.json"]
