"""Memory: the peak, its holders, what stays, fragmentation; all against plain replays."""

import collections
import gzip
import json
import pickle
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sample_runs import recorded
from snapshot_file import FRAMES, SEGMENT, START, Allocator, churn, snapshot, write

from tracetui.analysis.memory.lifetime import growth, long_lived, outliving
from tracetui.analysis.memory.owners import EARLIER, NO_STACK, compiled, own_and_library
from tracetui.analysis.memory.peak import Peak, columns, curve, curve_points, holders, holding, memory, peak
from tracetui.analysis.memory.segments import blocks, end_state, ooms, peak_fragmentation, segments
from tracetui.analysis.selection import Scope, Selection, select
from tracetui.app.cli import main as cli
from tracetui.parsers import open_path

GPT = "memory/gpt_memory_snapshot.pickle.gz"
VIM = "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"
WITH_MEMORY = [
    VIM,
    "chrome/vim_tiny_fp16_bs4.pt.trace.json.gz",
    "chrome/gpt_small_ctx256.trace.json.gz",
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz",
]


def of_snapshot(path: Path, *allocators: Allocator, **more: Any) -> Selection:
    return select(open_path(write(path / "s.pickle", snapshot(*allocators, **more)), cache=False).traces[0])


# --- snapshots


def live_at_peak(found: dict[str, Any], device: int) -> tuple[int, list[dict[str, Any]]]:
    """The peak of a snapshot's device, and the allocations held then, by replaying its history event by event."""
    used = [
        {"addr": b["address"], "size": b["size"], "frames": b["frames"]}
        for s in found["segments"]
        if s["device"] == device
        for b in s["blocks"]
        if b["state"] == "active_allocated"
    ]
    level, entries = sum(b["size"] for b in used), found["device_traces"][device]
    live = {b["addr"]: b for b in used}
    best, held = level, dict(live)
    for entry in reversed(entries):
        if level >= best:
            best, held = level, dict(live)
        if entry["action"] == "alloc":
            level -= entry["size"]
            block = live.pop(entry["addr"])
            held = {a: (entry if b is block else b) for a, b in held.items()}
        elif entry["action"] == "free_requested":
            level += entry["size"]
            live[entry["addr"]] = entry
    if level > best:
        best, held = level, live
    return best, list(held.values())


def own_line(allocation: dict[str, Any]) -> str:
    if allocation.get("action") == "free_requested":
        return EARLIER
    frames = allocation["frames"]
    own = [f for f in frames if f["line"] and "site-packages" not in f["filename"]]
    # homes are masked where a file is read
    return f"{own[0]['filename']}:{own[0]['line']} {own[0]['name']}".replace("/home/me/", "~/") if own else NO_STACK


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ring", [None, 150])
def test_the_peak_and_its_holders_by_replay(tmp_path, seed, ring):
    allocator = churn(Allocator(), 600, seed)
    sel = of_snapshot(tmp_path, allocator, ring=ring)
    found = snapshot(allocator, ring=ring)
    best, held = live_at_peak(found, 0)
    most = peak(sel)
    assert most is not None
    assert most.allocated == best == memory(sel).peak_allocated_bytes
    table = holders(sel, "stack")
    expected = collections.Counter()
    for allocation in held:
        expected[own_line(allocation)] += allocation["size"]
    assert dict(table.group_by("name").agg(pl.col("bytes").sum()).rows()) == dict(expected)
    assert table["bytes"].sum() == best
    assert table["allocations"].sum() == len(held)
    assert table["percent"].sum() == pytest.approx(100)
    assert table["bytes"].is_sorted(descending=True)
    for row in table.iter_rows(named=True):
        single = holding(sel, "stack", row["name"], row["stack"])
        assert (single.height, single["bytes"].sum()) == (row["allocations"], row["bytes"])


def test_the_fullest_device_is_the_one_shown_and_a_scope_chooses(tmp_path):
    small, large = churn(Allocator(0), 200, 1), churn(Allocator(1), 600, 2)
    sel = of_snapshot(tmp_path, small, large)
    totals = [max(held for held, _ in a.held) for a in (small, large)]
    assert totals[1] > totals[0]
    assert (peak(sel).device, peak(sel).allocated) == (1, totals[1])
    one = select(sel.trace, Scope(devices=frozenset({0})))
    assert (peak(one).device, peak(one).allocated) == (0, totals[0])
    assert memory(one).peak_allocated_bytes == totals[0]
    assert end_state(one).segments == len(small.segments)


def test_what_the_history_begins_with_may_be_the_peak(tmp_path):
    allocator = Allocator()
    addresses = [allocator.alloc(512 * 10, FRAMES[n]) for n in range(3)]
    begin = len(allocator.history)
    for address in addresses:
        allocator.free(address)
    sel = of_snapshot(tmp_path, allocator, ring=len(allocator.history) - begin)
    assert peak(sel).allocated == 3 * 5120
    assert memory(sel).peaks["allocated"].to_list() == [3 * 5120]
    assert holders(sel, "stack").select("name", "bytes", "allocations").rows() == [(EARLIER, 3 * 5120, 3)]
    assert memory(sel).peak_allocated_bytes == 3 * 5120


def test_the_recording_s_peak_and_holders(recording):
    sel = select(recording(GPT))
    found = pickle.loads(gzip.decompress(recorded(GPT).read_bytes()))
    best, held = live_at_peak(found, 0)
    most = peak(sel)
    assert most.allocated == best == 9_121_419_272
    assert most.reserved == 9_298_771_968
    table = holders(sel, "stack")
    assert table["bytes"].sum() == best
    assert table["allocations"].sum() == len(held)
    assert table.row(0)[:2] == ("bench/gpt.py:15 forward", 1_610_612_736)
    by_range = dict(holders(sel, "range").select("name", "bytes").rows())
    assert by_range["computing softmax"] == 1_610_612_736
    assert sum(by_range.values()) == best


def test_fragmentation_and_segments_of_the_recording(recording):
    found = pickle.loads(gzip.decompress(recorded(GPT).read_bytes()))["segments"]
    free = [b["size"] for s in found for b in s["blocks"] if b["state"] == "inactive"]
    split = sum(b["size"] for s in found if s["allocated_size"] for b in s["blocks"] if b["state"] == "inactive")
    sel = select(recording(GPT))
    end = end_state(sel)
    assert (end.segments, end.reserved_bytes, end.allocated_bytes) == (271, 9_365_880_832, 68_157_440)
    assert (end.free_bytes, end.largest_free_bytes, end.inactive_split_bytes) == (sum(free), max(free), split)
    assert end.fragmentation_percent == pytest.approx(100 * (1 - max(free) / sum(free)))
    table = segments(sel)
    assert table.select("address", "bytes").sort("address").rows() == sorted(
        (s["address"], s["total_size"]) for s in found
    )
    assert (table["allocated"] + table["free"]).to_list() == table["bytes"].to_list()
    busy = next(s for s in found if len(s["blocks"]) > 1)
    inside = blocks(sel, 0, busy["address"])
    assert inside["bytes"].to_list() == [b["size"] for b in busy["blocks"]]
    assert set(inside["state"]) == {"in use", "free"}


def free_blocks(found: dict[str, Any], device: int, moment: int) -> list[int]:
    """Sizes of the free pieces of a device's segments at a moment, ns, going back event by event byte by byte."""
    held = {s["address"]: s["total_size"] for s in found["segments"] if s["device"] == device}
    used = {
        b["address"]: b["size"]
        for s in found["segments"]
        if s["device"] == device
        for b in s["blocks"]
        if b["state"] == "active_allocated"
    }
    for entry in reversed([e for e in found["device_traces"][device] if e["time_us"] > moment]):
        match entry["action"]:
            case "alloc":
                del used[entry["addr"]]
            case "free_requested":
                used[entry["addr"]] = entry["size"]
            case "segment_alloc":
                del held[entry["addr"]]
            case "segment_free":
                held[entry["addr"]] = entry["size"]
    pieces = []
    for first, size in held.items():
        at = first
        for address in sorted(a for a in used if first <= a < first + size):
            pieces.append(address - at)
            at = address + used[address]
        pieces.append(first + size - at)
    return pieces


def test_fragmentation_at_the_peak(recording):
    sel = select(recording(GPT))
    most = peak(sel)
    found = pickle.loads(gzip.decompress(recorded(GPT).read_bytes()))
    free = free_blocks(found, 0, most.time // 1000)
    assert sum(free) == most.reserved - most.allocated
    assert peak_fragmentation(sel, most) == pytest.approx(100 * (1 - max(free) / sum(free)))
    # at the end nothing is to be undone
    end = end_state(sel)
    last = Peak(most.device_type, 0, sel.trace.memory.height - 1, None, end.allocated_bytes, end.reserved_bytes)
    assert peak_fragmentation(sel, last) == end.fragmentation_percent
    assert peak_fragmentation(sel, Peak(most.device_type, 0, most.row, None, most.allocated, most.reserved + 1)) is None


def test_blocks_that_wait_for_a_stream(tmp_path):
    allocator = Allocator()
    waits, kept = allocator.alloc(512), allocator.alloc(1024)
    allocator.request_free(waits)
    sel = of_snapshot(tmp_path, allocator)
    (address,) = allocator.segments
    assert blocks(sel, 0, address)["state"].to_list() == ["awaiting free", "in use", "free"]
    assert end_state(sel).allocated_bytes == 1024
    assert end_state(sel).free_bytes == SEGMENT - 1536
    assert peak(sel).allocated == 1536
    assert kept in allocator.live


def test_out_of_memory(tmp_path):
    allocator = Allocator()
    allocator.alloc(2048, FRAMES[2])
    allocator.oom(1 << 40, 777)
    sel = of_snapshot(tmp_path, allocator)
    (row,) = ooms(sel).iter_rows(named=True)
    assert (row["requested"], row["device_free"], row["allocated"], row["reserved"]) == (1 << 40, 777, 2048, SEGMENT)
    assert row["own"] == "~/model_1.py:7 forward"
    # what the device had free is no total of the allocator
    assert memory(sel).peak_reserved_bytes == SEGMENT
    assert curve(sel)["reserved"].max() == SEGMENT


def test_allocations_that_outlive_their_step(tmp_path):
    allocator = Allocator()
    marks = []

    def mark(stage: str, name: str) -> None:
        allocator.time += 10
        marks.append({"stage": stage, "name": name, "device": 0, "time_us": allocator.time})

    leaks = []
    for number in range(4):
        mark("START", f"step {number}")
        passing = allocator.alloc(1024, FRAMES[0])
        leaks.append(allocator.alloc(512 * (number + 1), FRAMES[1]))
        if number == 2:
            allocator.free(leaks[0])
        allocator.free(passing)
        mark("END", f"step {number}")
    sel = of_snapshot(tmp_path, allocator, external_annotations=marks)
    assert sel.trace.steps["index"].to_list() == [0, 1, 2, 3]
    (row,) = long_lived(sel, "stack").iter_rows(named=True)
    assert row["name"] == "~/model_1.py:7 forward"
    assert (row["bytes"], row["kept_bytes"], row["allocations"], row["steps"]) == (512 * 10, 512 * 9, 4, 4)
    assert outliving(sel, "stack", row["name"], row["stack"])["bytes"].to_list() == [2048, 1536, 1024, 512]
    table = growth(sel)
    assert table["growth_bytes"].to_list() == [None, 1024, 1536 - 512, 2048]
    assert table["allocated_end"].to_list() == [512, 1536, 2560, 4608]
    assert table["peak_bytes"].to_list() == [1536, 2560, 4096, 5632]
    # the first step begins before the first event: a snapshot's history may have lost what came before
    assert table["allocated_start"].to_list() == [None, 512, 1536, 2560]
    two = select(sel.trace, Scope(steps=(1, 2)))
    assert long_lived(two, "stack")["allocations"].to_list() == [2]
    assert peak(two).allocated == 4096


# --- traces with profile_memory


def memory_events(path: Path) -> list[dict[str, Any]]:
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    found = [e for e in events if e.get("name") == "[memory]" and e["args"]["Device Type"] == 1]
    return sorted(found, key=lambda e: e["ts"])


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_holders_in_recordings_by_replay(recording, name):
    sel = select(recording(name))
    events = memory_events(recorded(name))
    totals = [e["args"]["Total Allocated"] for e in events]
    best = max(totals)
    live: dict[int, int] = {}
    for event in events[: totals.index(best) + 1]:
        address, size = event["args"]["Addr"], event["args"]["Bytes"]
        if size > 0:
            live[address] = size
        else:
            live.pop(address, None)
    most = peak(sel)
    assert most.allocated == best
    for by in ("operator", "module"):
        table = holders(sel, by)
        known = table.filter(pl.col("name") != EARLIER)
        assert known["bytes"].sum() == sum(live.values())
        assert known["allocations"].sum() == len(live)
        assert table["bytes"].sum() == best


def test_holders_by_module_are_the_calls_around_their_operators(recording):
    sel = select(recording(VIM))
    host, events = sel.trace.host, sel.trace.memory
    table = dict(holders(sel, "module").select("name", "bytes").rows())
    most = peak(sel)
    kinds, names, parents = (host[c].to_list() for c in ("kind", "name", "parent"))
    expected: collections.Counter[str] = collections.Counter()
    open_: dict[int, tuple[int, int | None]] = {}
    for row in events.head(most.row + 1).iter_rows(named=True):
        if row["bytes"] > 0:
            open_[row["address"]] = (row["bytes"], row["operator"])
        else:
            open_.pop(row["address"], None)
    for size, at in open_.values():
        path = []
        while at is not None:
            if kinds[at] == "module":
                path.append(str(names[at]).removeprefix("nn.Module: "))
            at = parents[at]
        expected["/".join(reversed(path)) or "(not attributed)"] += size
    table.pop(EARLIER)
    assert table == dict(expected)


def test_long_lived_in_the_recording(recording):
    sel = select(recording(VIM))
    steps = [(s, s + d) for s, d in sel.trace.steps.select("start", "duration").rows()]
    made: dict[int, tuple[int, int]] = {}
    expected = 0
    for row in sel.trace.memory.iter_rows(named=True):
        if row["bytes"] > 0:
            made[row["address"]] = (row["time"], row["bytes"])
        else:
            begin, size = made.pop(row["address"], (None, 0))
            end = next((e for s, e in steps if begin is not None and s <= begin < e), None)
            expected += size if end is not None and row["time"] > end else 0
    expected += sum(size for begin, size in made.values() if any(s <= begin < e for s, e in steps))
    for by in ("operator", "module"):
        assert long_lived(sel, by)["bytes"].sum() == expected == 1536
    assert growth(sel)["growth_bytes"].to_list() == [0, 0, 0]


def test_random_events_by_replay(tmp_path):
    chance = random.Random(4)
    live: dict[int, int] = {900: 1000, 901: 50}
    total, rows, levels, sets = 1050 + 777, [], [], []
    for number in range(3000):
        if live and chance.random() < 0.5:
            address = chance.choice(sorted(live))
            size = -live.pop(address)
        else:
            address, size = chance.choice([a for a in range(200) if a not in live]), chance.randrange(1, 99)
            live[address] = size
        total += size
        levels.append(total)
        sets.append(dict(live))
        arguments = {"Addr": address, "Bytes": size, "Device Type": 1, "Device Id": 0, "Total Allocated": total,
                     "Total Reserved": 1 << 20}  # fmt: skip
        rows.append({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": number,
                     "args": arguments})  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    sel = select(open_path(path, cache=False).traces[0])
    best = levels.index(max(levels))
    table = dict(holders(sel, "operator").select("name", "bytes").rows())
    assert peak(sel).allocated == levels[best]
    assert sum(table.values()) == levels[best]
    older = {address: size for address, size in sets[best].items() if address in (900, 901)}
    assert table[EARLIER] == 777 + sum(older.values())
    assert table["(not attributed)"] == sum(sets[best].values()) - sum(older.values())
    points = curve_points(curve(sel), 200)
    assert points.height <= 200
    assert points["allocated"].max() == levels[best]
    assert points["time"].is_sorted()
    # of each stretch its most, so that a chart of any width has the peak
    for width in (1, 7, 80):
        filled, _ = columns(curve(sel), width)
        assert len(filled) == width
        assert max(value for value in filled if value is not None) == levels[best]


def test_nothing_recorded_is_nothing_known(recording):
    sel = select(recording("chrome/cudagraph_replay.trace.json.gz"))
    assert peak(sel) is None
    for table in (holders(sel, "operator"), long_lived(sel, "operator"), growth(sel), segments(sel), ooms(sel)):
        assert table.height == 0
    assert end_state(sel).reserved_bytes is None
    assert curve(sel).height == 0
    assert columns(curve(sel), 10) == ([], [])


@pytest.mark.parametrize("devices", [(), (0,)], ids=["", "beside the host's"])
def test_memory_of_a_device_that_is_not_told(tmp_path, devices, capsys):
    """As old torch wrote `[memory]` events: without `Device Type`, which is then unknown and neither host nor GPU."""
    events = []
    for at, change, total in ((1, 1024, 1024), (2, 512, 1536), (3, -1024, 512), (4, -512, 0)):
        arguments = {"Addr": abs(change), "Bytes": change, "Total Allocated": total}
        common = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": at}
        events.append({**common, "args": arguments})
        events += [{**common, "args": {**arguments, "Device Type": kind, "Total Allocated": 7}} for kind in devices]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"traceEvents": events}))
    sel = select(open_path(path, cache=False).main)
    found = peak(sel)
    assert (found.device_type, found.device, found.allocated, found.time) == (None, None, 1536, 2000)
    assert memory(sel).peak_allocated_bytes == 1536
    assert not memory(sel).on_gpu
    assert curve(sel)["allocated"].to_list() == [1024, 1536, 512, 0]
    assert holders(sel, "operator")["bytes"].sum() == 1536
    assert cli.main(["report", str(path), "--section", "memory", "--no-cache"]) == 0
    assert "1.500 KiB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stack", "own", "library"),
    [
        ("??;a.cpp x;/v/lib/python3.11/site-packages/torch/nn/f.py:3 relu;/me/t.py:9 step;/me/t.py:1 <module>",
         "/me/t.py:9 step", "/v/lib/python3.11/site-packages/torch/nn/f.py:3 relu"),
        ("/opt/pytorch/torch/optim/adam.py:5 step;/tmp/ipykernel_7/12.py:4 <cell line: 4>",
         "/tmp/ipykernel_7/12.py:4 <cell line: 4>", "/opt/pytorch/torch/optim/adam.py:5 step"),
        ("/usr/lib/python3.12/threading.py:2 run;<frozen runpy>:88 _run_code", None,
         "/usr/lib/python3.12/threading.py:2 run"),
        ("Module.cpp:55 THPModule;<stdin>:1 <module>", "<stdin>:1 <module>", None),
        ("torch/nn/functional.py(20): linear;train.py(6): step", "train.py(6): step",
         "torch/nn/functional.py(20): linear"),
        ("c10::malloc(unsigned long);__clone", None, None),
        ("/me/torch_models/net.py:4 forward", "/me/torch_models/net.py:4 forward", None),
    ],
)  # fmt: skip
def test_own_code_and_libraries(stack, own, library):
    assert own_and_library(stack) == (own, library)


def test_stacks_without_python_are_told_by_operator_and_node(recording):
    named = holders(select(recording(GPT)), "stack").filter(pl.col("own").is_null() & pl.col("stack").is_not_null())
    assert named.height == 3
    for row in named.iter_rows(named=True):
        operator, _, node = row["name"].partition(" in ")
        assert f"at::_ops::{operator}::" in row["stack"]
        assert f"generated::{node}::apply" in row["stack"]
        assert "Backward" in node
    assert compiled("torch::unwind::unwind();c10::alloc();cublasCreate;__clone") == "cublasCreate"
    assert compiled("c10::alloc()") == "c10::alloc()"


def test_times_are_of_the_snapshot(tmp_path):
    allocator = churn(Allocator(), 100, 1)
    sel = of_snapshot(tmp_path, allocator)
    assert sel.trace.info.window[0] == (START + 7) * 1000
