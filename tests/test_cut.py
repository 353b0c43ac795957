"""A stretch of a Chrome trace as a smaller one: what is kept, byte for byte, and that its numbers are the whole's."""

import asyncio
import gzip
import json
import subprocess
import sys
import threading

import pytest
from as_json import report
from chrome_file import ChromeFile
from sample_runs import OUTSIDE, recorded, run_of
from tui_pilot import drained, opened, press, screen_text

from tracetui.analysis.scope import Scope
from tracetui.analysis.timeline.timeline import timeline
from tracetui.app.cli.commands.cut import between, file_stretch, of_steps, zero_of
from tracetui.app.cli.main import main
from tracetui.parsers import open_path
from tracetui.parsers.chrome.cut import cut
from tracetui.parsers.chrome.reader import read_chrome
from tracetui.parsers.errors import Cancelled, TraceError
from tracetui.parsers.progress import Watch

WITH_STEPS = {
    "chrome/vim_tiny_fp32_bs4.pt.trace.json.gz": (2, 3),
    "chrome/deit_small_train_bf16_bs32.pt.trace.json.gz": (2, 3),
    "chrome/ddp_vit_small_2ranks/rank0.pt.trace.json.gz": (3, 3),
    "chrome/kineto_samples/resnet50_num_workers_0.pt.trace.json.gz": (6, 7),
    "chrome/hta_trace_diff/control.json.gz": (1010, 1011),
    "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz": (3, 4),
    "chrome/forms/cpu_only_rank34.json.gz": (551, 551),
    "jax/h200.trace.json.gz": (1, 2),
}
OF_THE_SAME_KIND = ("chrome/vim", "chrome/hta", "chrome/forms/torch213")
"""Recordings in which nothing is cut that is not in others: inference, collectives, modules on the CPU."""
BROKEN = sorted((OUTSIDE / "broken").glob("*"))
ABOUT_THE_FILE = ("source", "findings_abstained", "findings_checked")
"""What a report says of the file itself: its path, its size, rules that go by the name of the file."""


def text_of(path):
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def document(path):
    return json.loads(text_of(path))


def ordered(value):
    """The same whatever the order of tables, which some take from the whole recording."""
    if isinstance(value, dict):
        return {key: ordered(of) for key, of in value.items() if key != "next_command"}
    if isinstance(value, list):
        rows = [ordered(of) for of in value]
        tables = bool(rows) and isinstance(rows[0], dict)
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True)) if tables else rows
    return float(f"{value:.9g}") if isinstance(value, float) else value


def numbers(run, scope):
    of_trace = report(run, scope)["run"]["traces"][0]
    for key in ("recorded_us", "setup_us"):  # how long was recorded, and before the steps
        of_trace["overview"].pop(key)
    return {key: ordered(of_trace[key]) for key in of_trace if key not in ABOUT_THE_FILE}


@pytest.mark.parametrize("name", [name for name in WITH_STEPS if not name.startswith(OF_THE_SAME_KIND)])
def test_numbers_of_the_kept_steps_are_those_of_the_whole(tmp_path, name):
    source, run, steps = recorded(name), run_of(name), WITH_STEPS[name]
    window, marks = of_steps(run.main, *steps)
    found = cut(source, tmp_path / "part.json", window, steps=marks)
    part = open_path(tmp_path / "part.json", cache=False)
    assert part.main.steps["index"].to_list() == list(range(steps[0], steps[1] + 1))
    assert numbers(part, Scope(steps=steps)) == numbers(run, Scope(steps=steps))
    assert found.kept < found.events or len(run.main.steps) == len(part.main.steps)
    if run.main.info.window is not None:
        assert zero_of(part.main) == zero_of(run.main)


def test_a_step_that_reaches_into_the_next_one_is_not_cut_along(tmp_path):
    file = ChromeFile()
    for number in range(3):
        file.step(number, 100 * number, 100 * number + 100.08)
        file.launch("k", (100 * number + 10, 100 * number + 12), (100 * number + 20, 100 * number + 60))
        id = {"External id": number}
        file.event("user_annotation", "forward", (100 * number + 5, 100 * number + 15), **id)
        file.event("gpu_user_annotation", "forward", (100 * number + 120, 100 * number + 160), pid=0, tid=7, **id)
    source = file.write(tmp_path / "a.json")
    window, marks = of_steps(read_chrome(source), 1, 1)
    cut(source, tmp_path / "part.json", window, steps=marks)
    assert read_chrome(tmp_path / "part.json").steps["index"].to_list() == [1]
    on_gpu = [event for event in document(tmp_path / "part.json")["traceEvents"] if event["cat"][:4] == "gpu_"]
    assert [event["args"]["External id"] for event in on_gpu] == [0, 1]  # in its time, and of its range


def test_a_marked_stretch_of_a_recording_without_steps_has_the_kernels_of_the_whole(tmp_path):
    name = "chrome/cudagraph_replay.trace.json.gz"
    source, run = recorded(name), run_of(name)
    start, end = run.main.device["start"].min(), run.main.device["start"].max()
    window = (start + (end - start) // 3, start + (end - start) // 2)
    cut(source, tmp_path / "part.json", window)
    part = open_path(tmp_path / "part.json", cache=False)
    assert numbers(part, Scope(window=window)) == numbers(run, Scope(window=window))


@pytest.mark.parametrize("name", ["chrome/deit_small_train_bf16_bs32.pt.trace.json.gz", "jax/h200.trace.json.gz"])
def test_kept_events_are_the_bytes_of_the_file_and_all_around_them_stays(tmp_path, name):
    source = recorded(name)
    trace = read_chrome(source)
    window, marks = of_steps(trace, *[trace.steps["index"][1]] * 2)
    whole, original = document(source), text_of(source)
    for target in (tmp_path / "part.json", tmp_path / "part.json.gz"):
        found = cut(source, target, window, steps=marks)
        part = document(target)
        assert {k: v for k, v in part.items() if k != "traceEvents"} == {
            k: v for k, v in whole.items() if k != "traceEvents"
        }
        events = [event for event in whole["traceEvents"] if event]
        assert len(part["traceEvents"]) == found.kept < len(events) == found.events
        kept = iter(part["traceEvents"])
        wanted = next(kept)
        for event in events:  # in the order of the file
            if event == wanted:
                wanted = next(kept, None)
        assert wanted is None
        assert [e for e in part["traceEvents"] if e["ph"] == "M"] == [e for e in events if e["ph"] == "M"]
    at = 0
    for piece in text_of(tmp_path / "part.json").split(b"},\n  {")[1:-1]:
        at = original.find(piece, at)
        assert at >= 0, piece


def test_events_that_leave_out_nothing_are_the_file_byte_for_byte(tmp_path):
    source = recorded("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz")
    cut(source, tmp_path / "all.json", (0, 2**62))
    assert text_of(tmp_path / "all.json") == text_of(source)


def made(tmp_path, events, **top):
    path = tmp_path / "made.json"
    path.write_text(json.dumps({"schemaVersion": 1, **top, "traceEvents": events}))
    return path


def event(name, ph="X", ts=0.0, dur=None, cat="cpu_op", tid=1, args=None, **more):
    row = {"ph": ph, "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "args": args or {}, **more}
    return row if dur is None else {**row, "dur": dur}


def names(path):
    return [e["name"] + ("" if e["ph"] in "XM" else f" {e['ph']}") for e in document(path)["traceEvents"]]


def test_keeps_the_other_half_of_what_lies_in_the_range(tmp_path):
    source = made(
        tmp_path,
        [
            event("process_name", "M", args={"name": "python"}),
            event("early op", ts=10, dur=30),
            event("call", ts=15, dur=5, cat="cuda_runtime", args={"correlation": 7}),
            event("beside", ts=21, dur=5),
            event("ac2g", "s", ts=15, cat="ac2g", id=7),
            event("kernel", ts=105, dur=10, cat="kernel", tid=9, args={"correlation": 7, "stream": 9}),
            event("ac2g", "f", ts=105, cat="ac2g", id=7, tid=9, bp="e"),
            event("call in it", ts=110, dur=5, cat="cuda_runtime", args={"correlation": 8}),
            event("late kernel", ts=500, dur=10, cat="kernel", tid=9, args={"correlation": 8, "stream": 9}),
            event("lone kernel", ts=600, dur=10, cat="kernel", tid=9, args={"correlation": 9, "stream": 9}),
            event("long", "B", ts=50),
            event("long", "E", ts=130),
            event("short", "B", ts=60),
            event("short", "E", ts=70),
            event("never closed", "B", ts=90, tid=3),
            event("download", "b", ts=1, cat="net", id="0x1"),
            event("download", "n", ts=2, cat="net", id="0x1"),
            event("download", "e", ts=300, cat="net", id="0x1"),
            event("upload", "b", ts=1, cat="net", id="0x2"),
            event("upload", "e", ts=3, cat="net", id="0x2"),
            event("mark in it", "i", ts=119, s="t"),
            event("mark behind", "i", ts=120, s="t"),
            event("ac2g", "s", ts=700, cat="ac2g", id=77),
        ],
        traceName="x",
    )
    target = tmp_path / "part.json"
    found = cut(source, target, (100_000, 120_000))
    assert names(target) == [
        "process_name", "early op", "call", "ac2g s", "kernel", "ac2g f", "call in it", "late kernel",
        "long B", "long E", "download b", "download n", "download e", "mark in it i",
    ]  # fmt: skip
    assert document(target)["traceName"] == "x"
    assert document(target)["schemaVersion"] == 1
    choice = found.choice
    counts = (choice.in_range, choice.metadata, choice.launches, choice.around, choice.arrows, choice.within)
    assert sum(counts) + choice.held == found.kept == 14
    assert counts[:4] == (6, 1, 2, 1)
    assert [(note.kind, note.reason) for note in found.notes] == [("skipped", "begin event without an end")]


def test_a_call_that_begins_in_the_range_is_kept_whole(tmp_path):
    source = made(
        tmp_path,
        [
            event("outer", ts=110, dur=100),
            event("inner", ts=150, dur=20),
            event("elsewhere", ts=150, dur=20, tid=2),
            event("after", ts=220, dur=5),
        ],
    )
    cut(source, tmp_path / "part.json", (100_000, 120_000))
    assert names(tmp_path / "part.json") == ["outer", "inner"]


def test_a_call_that_never_returned_does_not_reach_into_the_range_past_its_caller(tmp_path):
    """The profiler writes it as lasting to the end of the recording: the reader ends it with its caller."""
    source = made(
        tmp_path,
        [event("caller", ts=10, dur=20), event("no return", ts=15, dur=900), event("in it", ts=105, dur=5)],
    )
    cut(source, tmp_path / "part.json", (100_000, 120_000))
    assert names(tmp_path / "part.json") == ["in it"]


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.name)
def test_damage_is_met_as_the_reader_meets_it(path, tmp_path):
    target = tmp_path / "part.json"
    try:
        whole = read_chrome(path)
    except TraceError:
        with pytest.raises(TraceError):
            cut(path, target, (-(2**61), 2**61))
        assert list(tmp_path.iterdir()) == []
        return
    if not whole.host.height + whole.device.height:
        with pytest.raises(TraceError, match="no event lies in this stretch"):
            cut(path, target, (-(2**61), 2**61))
        return
    found = cut(path, target, (-(2**61), 2**61))
    part = read_chrome(target)
    json.loads(target.read_text(encoding="utf-8-sig"), strict=False)
    assert (part.host.height, part.device.height) == (whole.host.height, whole.device.height)
    assert part.host.drop("offset").equals(whole.host.drop("offset"))
    lost = {note.reason: note.count for note in whole.notes if note.kind in ("skipped", "missing")}
    told = {note.reason: note.count for note in found.notes if note.kind in ("skipped", "missing")}
    assert {reason: lost[reason] for reason in lost.keys() & told.keys()} == told
    assert lost.keys() - told.keys() <= {"end event without a begin"}


def test_memory_stays_below_the_files_size(tmp_path):
    """Of a large file a few numbers per event are held, and some chunks."""
    events = text_of(recorded("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"))
    head, _, rest = events.partition(b'"traceEvents": [')
    body = rest[: rest.rindex(b"]")]
    big = tmp_path / "big.json"
    with big.open("wb") as file:
        file.write(head + b'"traceEvents": [')
        file.write(b",".join([body.rstrip()] * 4))
        file.write(b"]}")
    size = big.stat().st_size
    program = (
        "import resource, sys; from pathlib import Path; from tracetui.parsers.chrome.cut import cut\n"
        "import tracetui.parsers.chrome.reader\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "cut(Path(sys.argv[1]), Path(sys.argv[2]), (4293443700000000, 4293443800000000))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    words = [sys.executable, "-c", program, str(big), str(tmp_path / "part.json.gz")]
    kib = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert size > 50e6
    assert kib * 1024 < 1.2 * size


def test_nothing_is_left_behind_where_it_is_stopped(tmp_path):
    watch = Watch(None, threading.Event())
    watch.cancel.set()
    with pytest.raises(Cancelled):
        cut(recorded("chrome/vim_tiny_fp32_bs4.pt.trace.json.gz"), tmp_path / "x.json", (0, 2**62), watch=watch)
    assert list(tmp_path.iterdir()) == []


# --- the command


def test_two_cuts_to_one_name_do_not_disturb_each_other(tmp_path):
    source = recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")
    whole = between(read_chrome(source, Watch()), None, None)
    target = tmp_path / "part.json"
    left_by_another = tmp_path / "part.json.part"
    left_by_another.write_text("of somebody else")
    ends, both = [], threading.Barrier(2)

    def work():
        both.wait()
        try:
            ends.append(cut(source, target, whole).kept)
        except TraceError as error:
            ends.append(error.problem)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any(isinstance(end, int) for end in ends), ends
    assert all(end == "is there already" for end in ends if not isinstance(end, int))
    assert len(document(target)["traceEvents"]) in ends
    assert left_by_another.read_text() == "of somebody else"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_name_that_can_not_be_is_said_in_a_line(tmp_path, capsys):
    source = recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")
    for target, line in ((tmp_path / ("x" * 300), "file name too long"), (tmp_path / "no" / "x", "no such file")):
        assert main(["cut", str(source), "--steps", "2", "--output", str(target)]) != 0
        error = capsys.readouterr().err
        assert line in error
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_command_says_what_it_kept_and_replaces_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = str(recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz"))
    assert main(["cut", path, "--steps", "2-3"]) == 0
    said = capsys.readouterr().out
    name = "deit_small_train_bf16_bs32.cut-steps2-3.trace.json.gz"
    assert f"-> {name} (" in said
    assert "of 38,151 events" in said
    assert "in steps 2 to 3" in said
    assert main(["cut", path, "--steps", "2-3"]) == 0
    assert (tmp_path / name.replace(".trace", "-2.trace")).exists()
    assert main(["cut", path, "--steps", "2", "-o", name]) == 1
    assert capsys.readouterr().err == f"tracetui: {name}: is there already; give another name\n"
    assert main(["cut", path, "--from", "20ms", "--to", "40.5ms", "-o", "part.json"]) == 0
    assert "from 20.0ms to 40.5ms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--steps", "9"], "no step 9; it has steps 1 to 3"),
        ([], "give either --steps 3-5, or --from 3.1ms --to 9ms"),
        (["--from", "soon"], "--from soon: give a number and ns, us, ms or s, such as 12.5ms"),
        (["--from", "5ms", "--to", "4ms"], "--from must be before --to"),
    ],
)
def test_command_says_in_a_line_what_it_can_not_do(capsys, words, line):
    assert main(["cut", str(recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")), *words]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1


def test_command_cuts_chrome_traces_alone(capsys):
    assert main(["cut", str(recorded("nsys/graph_node.sqlite.gz")), "--steps", "1"]) == 2
    assert "only Chrome traces can be cut, and this is from Nsight Systems; record a shorter" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*WITH_STEPS, "chrome/gpt_small_ctx256.trace.json.gz"])
def test_times_count_from_where_the_timeline_counts(recording, name):
    trace = recording(name)
    assert zero_of(trace) == timeline(trace).zero
    start, end = between(trace, None, None)
    assert start == zero_of(trace)
    assert end >= timeline(trace).end


def test_file_names_tell_the_ends_apart():
    assert file_stretch(3_100_000, 9_000_000) == "3.1ms-9.0ms"
    assert file_stretch(3_100_000, 3_104_200) == "3100.0us-3104.2us"
    assert file_stretch(1_000_000_000, 3_500_000_000) == "1.0s-3.5s"


# --- the screen


async def test_a_marked_range_is_saved_beside_what_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")
    async with opened(path) as (app, pilot):
        await press(pilot, "T", "E")
        assert "No range is marked" in screen_text(app)
        await press(pilot, "w", "w", "left_square_bracket", "full_stop", "full_stop", "right_square_bracket", "E")
        assert not list(tmp_path.iterdir())
        assert "save as" in screen_text(app)
        await press(pilot, "enter")
        written = list(tmp_path.iterdir())
        assert len(written) == 1
        assert written[0].name.startswith("deit_small_train_bf16_bs32.cut-")
        assert "wrote " in screen_text(app)
        part = open_path(written[0], cache=False)
        window = app.session.scope.window
        inside = app.session.selection().device["correlation"].drop_nulls().unique()
        found = part.main.device["correlation"].drop_nulls().unique()
        assert set(inside) <= set(found)
        assert inside.len()
        await press(pilot, "2")
        app.action_save_range()
        await press(pilot, "enter")
        assert len(list(tmp_path.iterdir())) == 2
        assert window is not None


async def test_what_can_not_be_cut_is_said():
    async with opened(recorded("nsys/graph_node.sqlite.gz")) as (app, pilot):
        await press(pilot, "T", "E")
        assert "Only Chrome traces can be cut" in screen_text(app)


async def test_quitting_leaves_nothing_half_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    began = threading.Event()

    def slow(trace, window, target, watch, *, force):
        (tmp_path / "half").write_text("")
        began.set()
        assert watch.cancel.wait(30)
        (tmp_path / "half").unlink()
        raise Cancelled

    monkeypatch.setattr("tracetui.app.session.cut.save_range", slow)
    async with opened(recorded("chrome/deit_small_train_bf16_bs32.pt.trace.json.gz")) as (app, pilot):
        await press(pilot, "T", "w", "w", "left_square_bracket", "full_stop", "full_stop", "right_square_bracket")
        app.action_save_range()
        await drained()
        await pilot.press("enter")
        await drained()
        pilot.app.screen._on_timer_update()
        await asyncio.to_thread(began.wait, 30)
        assert began.is_set()
        app.action_save_range()
        await pilot.pause()
        assert "A range is being written already" in screen_text(app)
        app.ranges.stop()
        assert not list(tmp_path.iterdir())
