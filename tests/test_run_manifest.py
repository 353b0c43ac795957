"""run.json: what is read, what is not believed, and that its page says what it is."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import fields
from run_json_page import PAGE, classes, page
from sample_runs import VIM

from tracetui.parsers import open_path
from tracetui.parsers.runs import manifest as run_manifest
from tracetui.parsers.runs.json_records import record
from tracetui.parsers.runs.manifest import SCHEMA, PowerState, RunManifest, load, parse
from tracetui.parsers.tally import Tally

FULL: dict[str, Any] = {
    "schema": SCHEMA,
    "status": "finished",
    "identity": {"run_id": "r", "host": "h", "command": ["tracetui", "profile"], "git_dirty": True,
                 "started_unix_ns": 5},
    "software": {"torch": "2.11", "cuda_runtime": "13.0", "l4t": "36.4.3"},
    "device": [{"index": 0, "sm_count": 132, "available_clocks_hz": [1, 2], "ecc": True}],
    "power": {
        "before": {"mode_id": 2, "mode_name": "MAXN", "gpus": [{"clock_hz": 306000000, "load_percent": 4}],
                   "temperatures_c": {"cpu": 51}, "alarms": {"oc1_event_cnt": 3}, "memory": {"total_bytes": 8}},
        "during": [{"gpus": [{"clock_hz": 1}]}, {"gpus": [{"clock_hz": 2}]}],
        "after": None,
    },
    "workload": {"model": "vim_tiny", "input_shapes": [[4, 3, 224, 224], []], "options": {"keep": 0.1, "x": None},
                 "environment": {"CUDA_LAUNCH_BLOCKING": "1"}, "flops_per_step": 10**15},
    "measurement": {"clean_step_ns": [5, 6], "flags": {"with_stack": False}, "schedule": {"warmup": 3},
                    "commands": [["nsys", "profile"], []]},
    "outcome": {"exit_code": 0, "files": [{"name": "nsys.sqlite", "bytes": 9, "sha256": "ab"}]},
}  # fmt: skip


def test_a_whole_manifest(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(FULL))
    for read in (load(tmp_path), load(tmp_path / "run.json"), parse(FULL), parse(json.dumps(FULL))):
        assert read is not None
        assert read.notes == ()
        assert read.status == "finished"
        assert read.identity.command == ("tracetui", "profile")
        assert read.device[0].available_clocks_hz == (1, 2)
        before = read.power.before
        assert before is not None
        assert (before.gpus[0].clock_hz, before.gpus[0].load_percent) == (306_000_000, 4.0)
        assert before.temperatures_c == {"cpu": 51.0}
        assert before.gpu_processes is None
        assert [state.gpus[0].clock_hz for state in read.power.during] == [1, 2]
        assert read.power.after is None
        assert read.workload.input_shapes == ((4, 3, 224, 224), ())
        assert read.workload.options == {"keep": 0.1, "x": None}
        assert read.measurement.commands == (("nsys", "profile"), ())
        assert read.outcome.files[0].sha256 == "ab"


def test_what_is_read_can_be_written_and_read_again() -> None:
    read = parse(FULL)
    assert read is not None
    again = parse(msgspec.json.decode(msgspec.json.encode(read)))
    assert again == read
    assert again.power.during == read.power.during


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("identity.host", 3),
        ("identity.command", "one text"),
        ("identity.git_dirty", 1),
        ("identity.started_unix_ns", True),
        ("identity.started_unix_ns", 1.5),
        ("identity.started_unix_ns", 1 << 70),
        ("identity.started_unix_ns", float("inf")),
        ("power.before", []),
        ("power.before.temperatures_c", [1]),
        ("power", "x"),
        ("device", {"index": 0}),
        ("measurement.clean_step_ns", [1, "x"]),
        ("identity.started_unix_ns", float("nan")),
        ("identity.started_unix_ns", -(1 << 63)),
        ("power.before.temperatures_c", {"cpu": float("nan")}),
        ("power.before.alarms", {"oc1_event_cnt": "3"}),
        ("outcome.files", [1]),
        ("status", "asleep"),
    ],
)
def test_a_value_of_another_type_is_null_and_noted(place: str, value: Any) -> None:
    changed = json.loads(json.dumps(FULL))
    *way, last = place.split(".")
    at = changed
    for step in way:
        at = at[step]
    at[last] = value
    read = parse(changed)
    assert read is not None
    assert [(note.kind, note.count) for note in read.notes] == [("skipped", 1)]
    shown: Any = read
    for step in (*way, last):
        shown = getattr(shown, step)
    default: Any = PowerState() if "before." in place else RunManifest()
    for step in (last,) if "before." in place else (*way, last):
        default = getattr(default, step)
    assert shown == default
    assert read.software.torch == "2.11", "the rest is read"


def test_a_shape_with_a_size_that_is_none_is_left_out() -> None:
    read = parse({"schema": SCHEMA, "workload": {"input_shapes": [[1, 2], [3, "x"]]}})
    assert read is not None
    assert read.workload.input_shapes == ((1, 2),)
    assert read.notes[0].count == 1


def test_samples_are_read_when_they_are_asked_for() -> None:
    read = parse({"schema": SCHEMA, "power": {"during": [{"gpus": [{"clock_hz": 1}]}] * 3}})
    assert read is not None
    assert "_read" not in vars(read.power)
    assert [state.gpus[0].clock_hz for state in read.power.during] == [1, 1, 1]
    assert "_read" in vars(read.power)


@pytest.mark.parametrize(
    ("during", "clocks", "notes"),
    [
        ([{"gpus": [{"clock_hz": 1}]}, 7, {"gpus": [{"clock_hz": "2"}]}], [1, None], 2),
        ([{"gpus": [{"clock_hz": 1.0}]}, {"gpus": [{"clock_hz": 2.5}]}], [1, None], 1),
        ([{"gpus": [{"clock_hz": float("nan")}], "memory": []}], [None], 1),
        ({"gpus": []}, [], 1),
        (None, [], 0),
    ],
)
def test_samples_with_wrong_values(during: Any, clocks: list[int | None], notes: int) -> None:
    read = parse({"schema": SCHEMA, "status": "finished", "power": {"during": during, "after": {"mode_id": 1}}})
    assert read is not None
    assert read.noted == ()
    assert [state.gpus[0].clock_hz for state in read.power.during] == clocks
    assert len(read.notes) == notes
    assert all(note.kind == "skipped" and note.example.startswith("power.during") for note in read.notes)
    assert read.power.after is not None
    assert read.power.after.mode_id == 1


def test_one_reason_is_one_note() -> None:
    wrong = {"gpus": [{"clock_hz": "1"}]}
    read = parse({"schema": SCHEMA, "identity": {"host": 3}, "power": {"before": wrong, "during": [wrong, wrong]}})
    assert read is not None
    assert [(note.count, note.example) for note in read.notes] == [(4, "identity.host: 3")]


def test_whole_numbers_may_be_written_with_a_point() -> None:
    read = parse('{"schema": "tracetui.run/1", "identity": {"started_unix_ns": 5.0}, "workload": {"batch": 1e3}}')
    assert read is not None
    assert (read.identity.started_unix_ns, read.workload.batch, read.notes) == (5, 1000, ())


def test_notes_of_a_file_are_not_the_reading_s() -> None:
    read = parse({"schema": SCHEMA, "notes": [{"kind": "x", "reason": "y", "count": 1}], "noted": 1})
    assert read is not None
    assert read.notes == ()


def test_unknown_keys_and_later_versions() -> None:
    read = parse(
        {"schema": "tracetui.run/9", "status": "running", "new": {"a": 1}, "identity": {"host": "h", "new": 2}}
    )
    assert read is not None
    assert (read.identity.host, read.status) == ("h", "running")
    assert [note.kind for note in read.notes] == ["missing"]


@pytest.mark.parametrize(
    "value", [None, [], {}, {"schema": "other/1"}, {"schema": 1}, "text", "[1]", 3, {"status": "x"}]
)
def test_what_is_no_manifest(value: Any) -> None:
    assert parse(value) is None


def test_files_that_are_none_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    assert load(path) is None
    assert load(tmp_path) is None
    path.write_text('{"schema": "other/1"}')
    assert load(path) is None
    for damaged in (b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, json.dumps(FULL)[:-30].encode()):
        path.write_bytes(damaged)
        read = load(path)
        assert read is not None
        assert [(note.kind, note.reason) for note in read.notes] == [("missing", "everything: run.json is damaged")]
    for encoding in ("utf-8-sig", "utf-16", "utf-16-be", "utf-32"):
        path.write_text(json.dumps(FULL), encoding=encoding)
        again = load(path)
        assert again is not None, encoding
        assert again.status == "finished"
    path.write_bytes(b'{"schema": "tracetui.run/1", "identity": {"host": "caf\xe9", "cwd": "\\ud800/x"}, "x": NaN}')
    odd = load(path)
    assert odd is not None
    assert (odd.identity.host, odd.identity.cwd, odd.notes) == ("caf\ufffd", "?/x", ())
    path.write_text('{"schema": "tracetui.run/1", "device": ' + "9" * 5000 + "}")
    assert load(path) is not None
    path.write_text('{"schema": "tracetui.run/1", "identity": {"host": ' + "[" * 200_000)
    deep = load(path)
    assert deep is not None
    assert deep.identity.host is None


def test_every_field_has_a_type_that_is_read_and_a_default() -> None:
    known = {
        cls for cls in vars(run_manifest).values() if isinstance(cls, type) and issubclass(cls, msgspec.Struct)
    } - {msgspec.Struct}
    assert {cls.__name__ for cls in known} == set(classes())
    for cls in known:
        assert cls() == cls(), "every field has a default"
        assert record(cls, {field.encode_name: msgspec.Raw(b"null") for field in fields(cls)}, Tally()) == cls()


def test_the_page_says_what_the_file_is() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python tests/run_json_page.py`"
    named = {field.name for _, known in classes().values() for field in known}
    assert {"tpc_pg_mask", "pages_swapped_in", "clean_step_ns", "git_diff_sha256"} < named


def test_what_a_later_version_added_is_said_with_the_run(tmp_path: Path) -> None:
    shutil.copy(VIM / "trace.pt.trace.json.gz", tmp_path)
    later = (VIM / "run.json").read_text().replace('"tracetui.run/1"', '"tracetui.run/9"', 1)
    (tmp_path / "run.json").write_text(later)
    (said,) = open_path(tmp_path, cache=False).warnings
    assert "what a later version added: the file is tracetui.run/9" in said


def test_a_rank_is_on_its_own_machine_else_on_that_of_the_run() -> None:
    told = parse(
        {"schema": "tracetui.run/1", "identity": {"host": "a"}, "ranks": [{"rank": 0, "host": "b"}, {"rank": 1}]}
    )
    assert told is not None
    assert [told.host_of(rank) for rank in (0, 1, 2, None)] == ["b", "a", "a", "a"]
