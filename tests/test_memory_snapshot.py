"""CUDA memory snapshots: what is read of them, and what is refused."""

import collections
import copy
import gzip
import json
import os
import pickle
import random
import struct
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from as_json import report
from laid_out import report_text
from sample_runs import recorded
from snapshot_file import START, Allocator, churn, snapshot, write

from tracetui.parsers import Trace, schema
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.memory.pickle_scan import Refused, load_plain
from tracetui.parsers.memory.snapshot import read_memory_snapshot
from tracetui.parsers.progress import Progress, Watch
from tracetui.parsers.runs.run import Run

GPT = "memory/gpt_memory_snapshot.pickle.gz"
HISTORY = ("alloc", "free", "free_requested", "segment_alloc", "segment_free", "segment_map", "segment_unmap")


def read(path: Path) -> Trace:
    return read_memory_snapshot(path, Watch())


def opened_or_said(path: Path, lines: list[str]) -> Trace | None:
    """The trace, or null and the line that says why there is none."""
    try:
        return read(path)
    except TraceError as error:
        lines.append(str(error))
        return None


def reasons(trace: Trace) -> dict[str, int]:
    return {note.reason: note.count for note in trace.notes}


def history(trace: Trace, device: int = 0) -> pl.DataFrame:
    return trace.memory.filter(pl.col("action").is_in(HISTORY) & (pl.col("device") == device))


# --- the recording


@pytest.fixture(scope="module")
def gpt() -> tuple[dict[str, Any], Trace]:
    return pickle.loads(gzip.decompress(recorded(GPT).read_bytes())), read(recorded(GPT))


def test_every_entry_of_the_recording_is_a_row(gpt):
    plain, trace = gpt
    (entries,) = plain["device_traces"]
    rows = history(trace)
    names = {"free_completed": "free"}
    assert rows["action"].to_list() == [names.get(e["action"], e["action"]) for e in entries]
    assert rows["time"].to_list() == [e["time_us"] * 1000 for e in entries]
    assert rows["address"].to_list() == [e["addr"] for e in entries]
    sign = {"free_requested": -1, "free_completed": -1}
    assert rows["bytes"].to_list() == [sign.get(e["action"], 1) * e["size"] for e in entries]
    assert rows["stream"].to_list() == [e["stream"] for e in entries]
    assert (trace.source.events_total, trace.source.events_parsed) == (20_000, 20_000)
    assert trace.info.kind == "memory_snapshot"
    assert trace.info.window == (entries[0]["time_us"] * 1000, (entries[-1]["time_us"] - entries[0]["time_us"]) * 1000)
    assert trace.memory.schema == pl.Schema(schema.MEMORY)
    assert not trace.notes


def test_the_curve_of_the_recording_is_a_replay_from_its_end(gpt):
    plain, trace = gpt
    (entries,) = plain["device_traces"]
    allocated = sum(segment["allocated_size"] for segment in plain["segments"])
    reserved = sum(segment["total_size"] for segment in plain["segments"])
    expected = []
    for entry in reversed(entries):
        expected.append((allocated, reserved))
        allocated -= {"alloc": entry["size"], "free_requested": -entry["size"]}.get(entry["action"], 0)
        reserved -= {"segment_alloc": entry["size"], "segment_free": -entry["size"]}.get(entry["action"], 0)
    assert history(trace).select("allocated", "reserved").rows() == expected[::-1]
    assert min(expected)[0] >= 0


def test_the_end_state_of_the_recording(gpt):
    plain, trace = gpt
    held = trace.memory.filter(pl.col("action") == "segment")
    used = trace.memory.filter(pl.col("action") == "block")
    free = trace.memory.filter(pl.col("action") == "free_block")
    assert held["bytes"].sum() == sum(s["total_size"] for s in plain["segments"]) == 9_365_880_832
    assert held["allocated"].sum() == used["allocated"].sum() == 68_157_440
    blocks = [(s["address"], b) for s in plain["segments"] for b in s["blocks"]]
    assert used["address"].to_list() == [b["address"] for _, b in blocks if b["state"] == "active_allocated"]
    assert used["segment"].to_list() == [s for s, b in blocks if b["state"] == "active_allocated"]
    assert free["bytes"].sum() == sum(b["size"] for _, b in blocks if b["state"] == "inactive")


def test_stacks_of_the_recording_are_innermost_first(gpt):
    plain, trace = gpt
    entry, text = plain["device_traces"][0][-1], history(trace)["stack"].cast(pl.String)[-1]
    assert len(text.split(";")) == len(entry["frames"])
    assert text.startswith("torch::unwind::unwind();")
    assert "bench/prof2.py:24 <module>;" in text


def test_annotations_of_the_recording_are_ranges_and_steps(gpt):
    plain, trace = gpt
    starts = [a for a in plain["external_annotations"] if a["stage"] == "START"]
    assert trace.host.height == len(starts) == 620
    assert trace.host.filter(pl.col("name") == "forward_pass").height == 8
    assert trace.steps["name"].to_list() == ["train_step"] * 4
    inner = trace.host.with_row_index("row").filter(pl.col("name") == "computing softmax")
    parents = trace.host["name"].gather(inner["parent"]).cast(pl.String).unique().to_list()
    assert parents == ["scaled dot product attention"]


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5])
def test_every_protocol_gives_the_same(gpt, tmp_path, protocol):
    plain = {**gpt[0], "device_traces": [entries[-1_500:] for entries in gpt[0]["device_traces"]]}
    trace = read(write(tmp_path / "one.pickle", plain, 2))
    again = read(write(tmp_path / "again.pickle", plain, protocol))
    assert trace.memory.height > 1_500
    assert again.memory.equals(trace.memory)
    assert again.host.equals(trace.host)


def test_gzip_and_a_stream_cut_short(gpt, tmp_path):
    _, trace = gpt
    packed = tmp_path / "snapshot.pickle.gz"
    packed.write_bytes(recorded(GPT).read_bytes())
    assert read(packed).memory.equals(trace.memory)
    packed.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    cut = read(packed)
    assert 5_000 < cut.source.events_parsed < 20_000
    assert any("ends early" in reason for reason in reasons(cut))


def test_of_a_truncated_file_everything_before_the_cut_is_read(gpt, tmp_path):
    plain, _ = gpt
    data = gzip.decompress(recorded(GPT).read_bytes())
    path = tmp_path / "cut.pickle"
    path.write_bytes(data[: len(data) * 2 // 3])
    trace = read(path)
    entries = plain["device_traces"][0]
    rows = history(trace)
    assert rows.height == trace.source.events_parsed > 10_000
    assert rows["address"].to_list() == [e["addr"] for e in entries[: rows.height]]
    assert trace.memory.filter(pl.col("action") == "segment").height == len(plain["segments"])
    # the events that lead up to the end state are lost, so no total is known
    assert rows["allocated"].null_count() == rows.height
    (note,) = trace.notes
    assert (note.kind, note.count) == ("missing", 1)
    assert f"truncated after {path.stat().st_size:,} bytes" in note.example


def test_each_cut_gives_a_trace_or_a_line(tmp_path):
    allocators = churn(Allocator(0), 60, 1), churn(Allocator(1), 60, 2)
    data = pickle.dumps(snapshot(*allocators), 4)
    path = tmp_path / "cut.pickle"
    best = 0
    for end in range(0, len(data), 97):
        path.write_bytes(data[:end])
        lines: list[str] = []
        trace = opened_or_said(path, lines)
        if trace is None:
            assert "\n" not in lines[0]
            assert best == 0
            continue
        found = 0
        for device, allocator in enumerate(allocators):
            rows = history(trace, device)
            assert rows["address"].to_list() == [e["addr"] for e in allocator.history[: rows.height]]
            # the second device's history comes after all of the first's
            assert device == 0 or not rows.height or found == 60
            found += rows.height
        assert found >= best
        best = found
    assert best > 110


# --- the curve


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ring", [None, 200])
def test_the_curve_is_what_the_allocator_held(tmp_path, seed, ring):
    allocators = churn(Allocator(0), 700, seed), churn(Allocator(1), 500, seed + 99)
    trace = read(write(tmp_path / "s.pickle", snapshot(*allocators, ring=ring)))
    for device, allocator in enumerate(allocators):
        rows = history(trace, device)
        assert rows.select("allocated", "reserved").rows() == allocator.held[-rows.height :]
        assert rows.height == (ring or len(allocator.history))
    assert trace.memory["time"].drop_nulls().is_sorted()
    assert not trace.notes


@pytest.mark.parametrize("seed", range(3))
def test_sizes_as_asked_for_differ_by_the_rounding_alone(tmp_path, seed):
    allocator = churn(Allocator(), 400, seed, sizes=100)
    trace = read(write(tmp_path / "s.pickle", snapshot(allocator)))
    end = allocator.held[-1][0]
    waste = end - sum(allocator.live.values())
    live: dict[int, int] = {}
    for entry, allocated in zip(allocator.history, history(trace)["allocated"], strict=True):
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_requested":
            del live[entry["addr"]]
        assert allocated == sum(live.values()) + waste
    assert allocated == end


def test_expandable_segments_and_out_of_memory(tmp_path):
    allocator = Allocator()
    first = allocator.alloc(512)
    allocator.oom(1 << 40, 12345)
    allocator.free(first)
    found = snapshot(allocator)
    for entry in found["device_traces"][0]:
        entry["action"] = {"segment_alloc": "segment_map"}.get(entry["action"], entry["action"])
    trace = read(write(tmp_path / "s.pickle", found))
    assert trace.memory["action"].to_list()[:5] == ["segment_map", "alloc", "oom", "free_requested", "free"]
    oom = trace.memory.row(2, named=True)
    assert (oom["bytes"], oom["reserved"], oom["allocated"], oom["address"]) == (1 << 40, 12345, 512, None)
    assert history(trace)["reserved"].to_list() == [2 << 20] * 4
    assert history(trace)["allocated"].to_list() == [0, 512, 0, 0]


def test_histories_without_requests_end_at_the_free(tmp_path):
    allocator = churn(Allocator(), 300, 5)
    found = snapshot(allocator)
    kept = [e for e in found["device_traces"][0] if e["action"] != "free_requested"]
    # what waits to be freed counts as held where the request is not recorded
    for segment in found["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_awaiting_free":
                segment["allocated_size"] += block["size"]
                block["state"] = "active_allocated"
    for old in ("free_completed", "free"):
        entries = [{**e, "action": old if e["action"] == "free_completed" else e["action"]} for e in kept]
        trace = read(write(tmp_path / "s.pickle", {**found, "device_traces": [entries]}))
        rows = history(trace)
        assert rows["allocated"].to_list()[0] in (0, rows["bytes"][0])
        level = 0
        for row in rows.iter_rows(named=True):
            level += row["bytes"] if row["action"] in ("alloc", "free") else 0
            assert row["allocated"] == level


def test_a_history_that_does_not_lead_to_the_end_has_no_totals(tmp_path):
    allocator = churn(Allocator(), 600, 3)
    found = snapshot(allocator)
    found["device_traces"] = [found["device_traces"][0][:300]]
    trace = read(write(tmp_path / "s.pickle", found))
    assert history(trace)["allocated"].null_count() == 300
    assert any("between the history and the end state" in reason for reason in reasons(trace))


def test_totals_before_an_event_that_does_not_add_up_are_unknown(tmp_path):
    found = snapshot(churn(Allocator(), 40, 3))
    lost = {"action": "alloc", "addr": 1 << 40, "size": 1 << 45, "stream": 0, "time_us": 1, "frames": []}
    gone = {"action": "free_requested", "addr": 1 << 40, "size": 1, "stream": 0, "time_us": 1, "frames": []}
    entries = found["device_traces"][0]
    trace = read(write(tmp_path / "s.pickle", {**found, "device_traces": [[*entries[:20], lost, gone, *entries[20:]]]}))
    rows = history(trace)
    assert rows["allocated"][:20].null_count() == 20
    assert rows["allocated"][21:].null_count() == 0
    assert rows["allocated"][-1] == sum(s["allocated_size"] for s in found["segments"])


# --- forms


def test_history_off_leaves_the_end_state(tmp_path):
    found = snapshot(churn(Allocator(), 100, 1))
    trace = read(write(tmp_path / "s.pickle", {**found, "device_traces": [[], [], []]}))
    assert set(trace.memory["action"].cast(pl.String)) == {"segment", "block", "free_block"}
    assert trace.info.window is None
    assert any(reason.startswith("history") for reason in reasons(trace))
    # the form that torch.cuda.memory_snapshot() returns
    alone = read(write(tmp_path / "s.pickle", found["segments"]))
    assert alone.memory.equals(trace.memory)


def test_old_blocks_have_a_history_and_no_address(tmp_path):
    frames = [{"filename": "a.py", "line": 1, "name": "f"}]
    segment = {"device": 0, "address": 4096, "total_size": 2048, "stream": 0, "allocated_size": 512, "blocks": [
        {"size": 512, "state": "active_allocated", "history": [{"addr": 4096, "real_size": 40, "frames": frames}]},
        {"size": 512, "state": "active_pending_free"},
        {"size": 1024, "state": "inactive"},
    ]}  # fmt: skip
    trace = read(write(tmp_path / "s.pickle", [segment]))
    blocks = trace.memory.tail(3)
    assert blocks["address"].to_list() == [4096, 4608, 5120]
    assert blocks["action"].to_list() == ["block", "block", "free_block"]
    assert blocks["allocated"].to_list() == [512, 0, None]
    assert blocks["requested"].to_list() == [40, None, None]
    assert blocks["stack"].to_list() == ["a.py:1 f", None, None]


def test_a_snapshot_made_from_a_profile(tmp_path):
    stack = [{"filename": "none", "line": 0, "name": "train.py(6): step"}]
    made = {"action": "alloc", "addr": 100, "size": 40, "stream": 0, "frames": stack, "category": "input"}
    kept = {**made, "addr": 200, "size": 60}
    gone = {"action": "free_requested", "addr": 100, "size": 40, "stream": 0, "frames": stack}
    segment = {"device": 1, "address": 100, "total_size": 160, "stream": 0, "blocks": [
        {"size": 100, "state": "inactive"},
        {"size": 60, "requested_size": 60, "state": "active_allocated", "frames": stack},
    ]}  # fmt: skip
    history_of_cpu = [made, kept, gone, {**gone, "action": "free_completed"}]
    trace = read(write(tmp_path / "s.pickle", {"device_traces": [[], history_of_cpu], "segments": [segment]}))
    assert trace.memory["device_type"].unique().to_list() == [0]
    assert trace.memory["allocated"].to_list()[:4] == [40, 100, 60, 60]
    assert trace.memory["time"].null_count() == trace.memory.height
    assert trace.memory["reserved"].null_count() == trace.memory.height
    assert "segment" not in trace.memory["action"].cast(pl.String).to_list()
    assert trace.memory["stack"][0] == "train.py(6): step"


def test_no_times_keep_the_order_of_the_file(tmp_path):
    found = snapshot(churn(Allocator(0), 50, 1), churn(Allocator(1), 50, 2))
    for entries in found["device_traces"]:
        for entry in entries:
            del entry["time_us"]
    trace = read(write(tmp_path / "s.pickle", found))
    assert trace.memory["device"].to_list()[:100] == [0] * 50 + [1] * 50
    assert trace.info.window is None


def test_what_is_odd_is_counted_and_the_rest_read(tmp_path):
    found = snapshot(churn(Allocator(), 30, 1))
    found["segments"] += [None, {"blocks": 3}]
    found["device_traces"][0] += [
        7,
        {"action": "user_defined", "size": 1, "time_us": START, "stream": 0},
        {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": START, "frames": [], "new_key": {"a": 1}},
        {"action": "free", "addr": 1, "size": 1 << 64, "time_us": 1 << 60, "stream": -1, "frames": None},
        {"action": ["alloc"], "addr": 1 << 80, "size": "big", "time_us": 1.5, "frames": ["x", {"name": "g"}]},
    ]
    found["external_annotations"] = [
        {"stage": "END", "name": "early", "device": 0, "time_us": START},
        {"stage": "START", "name": "open", "device": 0, "time_us": START},
        {"stage": "?", "name": "x", "time_us": 1},
    ]
    trace = read(write(tmp_path / "s.pickle", found))
    assert trace.source.events_parsed == 34
    assert trace.source.events_total == 37
    told = reasons(trace)
    assert told["entry of the history that is no record"] == told["segment that is no record"] == 1
    assert told["unknown action of the allocator, kept as 'other'"] == 2
    assert told["annotation that began before the recording"] == told["annotation still open at the snapshot"] == 1
    assert trace.memory.filter(pl.col("action") == "other").height == 3
    assert told["size that is no number"] == told["time that is no number"] == 2
    assert trace.host["name"].cast(pl.String).to_list() == ["open"]


def test_what_was_held_before_an_unknown_size_is_unknown(tmp_path):
    found = snapshot(churn(Allocator(), 30, 1))
    events = found["device_traces"][0]
    whole = read(write(tmp_path / "whole.pickle", found)).memory["allocated"][: len(events)]
    at = max(number for number, event in enumerate(events[:-5]) if event["action"] == "alloc")
    events[at]["size"] = -events[at]["size"]
    torn = read(write(tmp_path / "torn.pickle", found)).memory["allocated"][: len(events)]
    assert torn[: at + 1].null_count() == at + 1
    assert torn[at + 1 :].equals(whole[at + 1 :])
    assert whole.null_count() == 0


def test_the_environment_is_not_kept(tmp_path):
    trace = read(write(tmp_path / "s.pickle", snapshot(churn(Allocator(), 30, 1))))
    assert trace.info.captured == (("expandable_segments", "False"),)
    assert "secret_of_the_environment" not in repr(trace)


def test_an_empty_snapshot_opens(tmp_path):
    trace = read(write(tmp_path / "s.pickle", {"segments": [], "device_traces": []}))
    assert trace.memory.height == trace.source.events_total == 0


def test_a_stack_without_end_is_cut(tmp_path):
    frame = {"filename": "x" * 40_000, "line": 1, "name": "f"}
    entry = {"action": "alloc", "addr": 1, "size": 512, "stream": 0, "time_us": 1, "frames": [frame] * 100_000}
    trace = read(write(tmp_path / "s.pickle", {"segments": [], "device_traces": [[entry]]}))
    assert len(str(trace.memory["stack"][0])) < 1 << 17
    assert any("stack" in reason for reason in reasons(trace))


# --- what is refused


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("made_by_a_pickle",))


def tuples(depth: int) -> bytes:
    return b"\x80\x04})" + b"\x85" * depth + b"K\x01s."


def same_hash(count: int) -> bytes:
    """A dict of so many keys that all have the hash 0."""
    keys = ((n * ((1 << 61) - 1)).to_bytes(12, "little") for n in range(1, count))
    return b"\x80\x04}(" + b"".join(b"\x8a\x0c" + key + b"N" for key in keys) + b"u."


HOSTILE = {
    "keys of one hash": (lambda: same_hash(200_000), "beyond 64 bits"),
    "a call": (pickle.dumps(Evil()), "mkdir"),
    "a call within": (pickle.dumps({"segments": [], "device_traces": [[{"action": Evil()}]]}), "mkdir"),
    "a call, protocol 0": (pickle.dumps(Evil(), 0), "mkdir"),
    "an innocent class": (pickle.dumps({"segments": collections.OrderedDict(a=1)}), "collections.OrderedDict"),
    "a persistent id": (b"\x80\x02U\x03abcQ.", "outside of it"),
    "a persistent id, protocol 0": (b"Pabc\n.", "outside of it"),
    "a copyreg extension": (b"\x80\x02\x82\x01.", "EXT1"),
    "a memo bomb": (b"\x80\x04}r\xfe\xff\xff\xff.", "memo index"),
    "a memo bomb in digits": (b"\x80\x02}p4294967290\n.", "memo index"),
    "nested tuples as a key": (tuples(1_000_000), "nested tuples"),
    "a frozenset": (pickle.dumps({"segments": frozenset([1])}), "frozenset"),
    "a bytearray": (b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.", "bytearray"),
    "a number of two million digits": (b"\x80\x02L" + b"9" * 2_000_000 + b"L\n.", "thousands of digits"),
    "huge bytes": (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x", "truncated"),
    "huge text": (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x", "truncated"),
    "a huge text of 4 GiB": (b"\x80\x02X\xff\xff\xff\xffx", "truncated"),
    "a huge frame": (b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"K\x01.", "no CUDA memory snapshot"),
    "a list in itself": (b"\x80\x04]\x94h\x00a.", "no CUDA memory snapshot"),
    "deep lists": (b"\x80\x04" + b"]" * 300_000 + b"a" * 299_999 + b".", "no CUDA memory snapshot"),
    "marks without end": (b"\x80\x04" + b"(" * 1_000_000 + b".", "not a pickle"),
    "an unknown protocol": (b"\x80\x09}.", "protocol 9"),
    "a number": (pickle.dumps(3), "one int"),
    "an old torch.save": (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "torch.save"),
    "weights": (pickle.dumps({"fc.weight": [1.0], "fc.bias": [0.0]}), "fc.weight"),
    "nothing": (b"", "empty file"),
    "a text": (b"some text\n" * 9, "pickle"),
    "JSON": (b'{"traceEvents": []}', "not a pickle"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_refused_in_one_line(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    data, says = HOSTILE[name]
    path = tmp_path / "hostile.pickle"
    path.write_bytes(data() if callable(data) else data)
    begin = time.process_time()  # what runs beside this takes no part in it
    with pytest.raises(TraceError) as caught:
        read(path)
    assert time.process_time() - begin < 5
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert not (tmp_path / "made_by_a_pickle").exists()


@pytest.mark.parametrize("op", [b"R", b"b", b"o", b"\x81", b"\x92"])
def test_nothing_is_called_even_without_a_class(op):
    with pytest.raises(Refused, match="calls something"):
        load_plain(b"\x80\x04}}}" + op + b".")


def test_plain_containers_of_every_kind_are_loaded():
    value = {
        "a": [1, -5, 1 << 70, 2.5, True, None, "é\n" * 200, b"x" * 300, ("t",), (0, 0), (300, 1), (), {1, 2}],
        7: {"deep": [[[["x"]]]]},
    }
    for protocol in range(6):
        if protocol < 4:  # sets need a class there
            value["a"] = [item for item in value["a"] if not isinstance(item, (set, bytes))]
        assert load_plain(pickle.dumps(value, protocol)).value == value
    value["a"] += [{1, 2}, b"bytes"]
    for protocol in (4, 5):
        assert load_plain(pickle.dumps(value, protocol)).value == value


def test_reading_reports_progress_and_stops_when_asked(gpt):
    seen: list[Progress] = []
    read_memory_snapshot(recorded(GPT), Watch(seen.append))
    assert [p.stage for p in seen][-1] == "linking"
    assert all(0 <= p.done <= p.total for p in seen)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        read_memory_snapshot(recorded(GPT), Watch(None, stop))


def test_many_entries_with_stacks_of_their_own_are_read_in_seconds(tmp_path):
    frames = [{"name": f"function_{n}", "filename": f"/home/me/module_{n}.py", "line": n + 1} for n in range(30)]
    entries = [
        {"action": "alloc", "addr": n << 12, "size": 512, "stream": 0, "time_us": n,
         "frames": [dict(f, name=f"{f['name']}{n % 50}") for f in frames]}
        for n in range(20_000)
    ]  # fmt: skip
    path = write(tmp_path / "large.pickle", {"segments": [], "device_traces": [entries]})
    assert path.stat().st_size > 10_000_000
    begin = time.process_time()
    trace = read(path)
    assert time.process_time() - begin < 10
    assert trace.memory["stack"].n_unique() == 50


ODD = [None, True, -1, 1 << 62, 1 << 63, 1 << 80, -(1 << 63), 1.5, float("nan"), "x", b"y", [], {}, (), [1], "\ud800"]


def spoil(value: Any, chance: random.Random, share: float) -> None:
    """Puts odd values into the places of a container, or takes places away."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        if chance.random() >= share:
            spoil(value[key], chance, share)
        elif isinstance(value, dict) and chance.random() < 0.3:
            del value[key]
        else:
            value[key] = chance.choice(ODD)


@pytest.mark.parametrize("seed", range(60))
def test_no_value_and_no_byte_stops_it(tmp_path, seed):
    chance = random.Random(seed)
    # entries share their frames, which other tests use too
    found = copy.deepcopy(snapshot(churn(Allocator(0), 40, 1), churn(Allocator(1), 30, 2)))
    spoil(found, chance, [0.0, 0.002, 0.02, 0.1][seed % 4])
    data = bytearray(pickle.dumps(found, seed % 6))
    for _ in range(0 if seed % 4 else 3):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path = tmp_path / "s.pickle"
    path.write_bytes(data)
    lines: list[str] = []
    trace = opened_or_said(path, lines)
    if trace is None:
        assert "\n" not in lines[0]
        return
    skipped = sum(note.count for note in trace.notes if note.kind == "skipped")
    assert trace.source.events_parsed + skipped == trace.source.events_total
    section = report(Run(path, (trace,)), sections=["memory"])
    json.dumps(section, allow_nan=False)
    assert report_text(section)
