"""Samples of a program's lines: what a sampler sees becomes steps and lines, and nothing goes wrong where it fails."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from programs import eventually
from sample_runs import recorded
from tui_pilot import opened, press, screen_text

from tracetui.analysis.host_lines import NO_LINE, Sampled, host_lines, sampled
from tracetui.app.cli.main import main
from tracetui.collectors import sampling
from tracetui.collectors.child.marks import Marks
from tracetui.collectors.child.progress import Progress
from tracetui.collectors.child.ranks import first_says
from tracetui.collectors.child.sampling import ANSWER, PHASE, Sampling
from tracetui.collectors.folder import put_program
from tracetui.collectors.machine.probe import Probe
from tracetui.collectors.process import Follower, Tick
from tracetui.collectors.request import ProfileRequest
from tracetui.collectors.sampling import Event, Sampler, Where, samples_of, why_not
from tracetui.collectors.scrub import scrub
from tracetui.parsers import open_path
from tracetui.parsers.runs import samples
from tracetui.parsers.runs.samples import Frame, Samples

MS = 1_000_000
CHILD = "/run.partial/child/tracetui_child/sampling.py"
START = (("<module>", "/run.partial/child/start.py", 5), ("_run_code", "<frozen runpy>", 88))
USER = ("<module>", "/home/ann/train.py", 40)
STEP = ("step", "/home/ann/train.py", 12)
CLIP = ("clip", "/home/ann/clip.py", 7)
TORCH = ("norm", "/opt/lib/python3.12/site-packages/torch/functional.py", 1866)
MODEL = ("forward", "/run.partial/child/tracetui_models/networks/vim.py", 3)
Seen = list[tuple[int, tuple[tuple[str, str, int], ...]]]


def events(tid: int, name: str, seen: Seen, end: int, pid: int = 7) -> list[Event]:
    """What py-spy writes of a thread that was seen in these stacks from these µs on."""
    found, before = [], ()
    started = (('process 7:"python"', "", 0), (f'process {pid}:"python"', "", 0))
    for at, stack in [*((at, (*started[: pid - 6], ("", "", 0), *stack)) for at, stack in seen), (end, ())]:
        same = next(
            (n for n, (a, b) in enumerate(zip(before, stack, strict=False)) if a != b), min(len(before), len(stack))
        )
        for function, file, line in reversed(before[same:]):
            found.append(Event("E", at, pid, tid, function or name, Where(file, line)))
        for function, file, line in stack[same:]:
            found.append(Event("B", at, pid, tid, function or name, Where(file, line)))
        before = stack
    return found


def sampled_run(seen: Seen, last: int, *others: list[Event], marks: tuple[int, ...] = (0, 10, 20)) -> Samples:
    """The samples of steps between these ms; the sampler's clock is a second ahead, and all of it is seen 1 ms late."""
    begin = 1_000_000
    own_thread = events(
        1,
        "thread (7): MainThread",
        [
            (0, (*START, ("_stand_before", CHILD, 1))),
            *((begin + 1_000 + at * 1000, (*START, *stack)) for at, stack in seen),
            (begin + 1_000 + last * 1000, (*START, ("_stand_after", CHILD, 9))),
        ],
        begin + 1_000 + (last + 50) * 1000,
    )
    told = {
        "pid": 7, "thread": 1, "moments": {"began": marks[0] * MS, "ended": last * MS},
        "marks": [at * MS for at in marks],
        "step_ns": [(b - a) * MS for a, b in pairwise(marks)], "host_ns": [(b - a) * MS for a, b in pairwise(marks)],
    }  # fmt: skip
    return samples_of([*own_thread, *(event for each in others for event in each)], told)


def by_line(found: Samples, thread: int = 0) -> Counter[tuple[int, str]]:
    """Step and innermost frame, with how many ms."""
    spent: Counter[tuple[int, str]] = Counter()
    for stay in found.stays:
        if stay.thread == thread:
            frames = found.stacks[stay.stack].frames
            last = found.frames[frames[-1]] if frames else Frame()
            spent[stay.step, f"{last.file.rpartition('/')[2]}:{last.line}"] += stay.ns // MS
    return spent


def test_stacks_are_put_into_steps_by_the_program_s_clock() -> None:
    other = events(2, "thread (8): loader", [(0, (("wait", "/home/ann/data.py", 3),))], 2_000_000)
    found = sampled_run([(0, (USER, STEP)), (6, (USER, STEP, CLIP)), (14, (USER, STEP, CLIP, TORCH))], 20, other)
    assert by_line(found) == {
        (0, "train.py:12"): 6, (0, "clip.py:7"): 4, (1, "clip.py:7"): 4, (1, "functional.py:1866"): 6,
    }  # fmt: skip
    assert by_line(found, 1) == {(0, "data.py:3"): 10, (1, "data.py:3"): 10}
    assert [(thread.name, thread.steps) for thread in found.threads] == [("MainThread", True), ("loader", False)]
    assert found.frames[0] == Frame("/home/ann/train.py", 40, "<module>"), "what starts the program is no frame of it"


def looked(seen: dict[int, Seen], period: int, end: int) -> list[Event]:
    """What py-spy writes of threads of one number in several processes: what changed since it saw that number last."""
    found: list[Event] = []
    before: tuple[tuple[str, str, int], ...] = ()
    for at in range(0, end, period):
        for order, (pid, stays) in enumerate(seen.items()):
            stack = [stack for begun, stack in stays if begun <= at][-1]
            named = (f"thread ({pid}): MainThread", "", 0)
            processes = tuple((f'process {number}:"python"', "", 0) for number in dict.fromkeys((7, pid)))
            whole = (*processes, named, *stack)
            same = next((n for n, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), len(processes))
            same = min(same, len(before), len(whole)) if before != whole else len(whole)
            for function, file, line in reversed(before[same:]):
                found.append(Event("E", at + order, pid, 1, function, Where(file, line)))
            for function, file, line in whole[same:]:
                found.append(Event("B", at + order, pid, 1, function, Where(file, line)))
            before = whole
    return found


def test_workers_are_told_as_their_mean_by_the_line_that_makes_the_batches() -> None:
    pack, wait = ("pack", "/home/ann/data.py", 39), ("get", "/usr/lib/python3.12/multiprocessing/queues.py", 9)
    own = [
        (0, (*START, ("_stand_before", CHILD, 1))), (1_001_000, (*START, USER, STEP)),
        (1_021_000, (*START, ("_stand_after", CHILD, 9))),
    ]  # fmt: skip
    seen = {7: own, 8: [(0, (pack,))], 9: [(0, (wait,)), (1_011_000, (pack,))]}
    feeder = events(2, "thread (9): QueueFeederThread", [(0, (pack,))], 2_000_000, 9)
    told = {
        "pid": 7, "thread": 1, "moments": {"began": 0, "ended": 20 * MS}, "marks": [0, 10 * MS, 20 * MS],
        "step_ns": [10 * MS, 10 * MS], "host_ns": [10 * MS, 10 * MS],
    }  # fmt: skip
    found = samples_of([*looked(seen, 100, 1_100_000), *feeder], told)
    assert sorted((thread.steps, thread.process or 0) for thread in found.threads) == [
        (False, 8),
        (False, 9),
        (True, 0),
    ]
    of = sampled_of(found, 10 * MS)
    lines = host_lines(of)
    assert lines.filter(~pl.col("other"))["short_name"].to_list() == ["train.py:12"]
    others = lines.filter("other")
    assert others["short_name"].to_list() == ["data.py:39", NO_LINE]
    assert set(others["thread"]) == {"2 other processes, mean"}
    assert others["percent"].to_list() == pytest.approx([75, 25], abs=1)


def test_a_known_model_s_files_have_names_of_their_own() -> None:
    found = sampled_run([(0, (("run_steps", CHILD.replace("sampling", "main"), 2), MODEL))], 20)
    assert [frame.file for frame in found.frames] == ["tracetui_models/networks/vim.py"]


def test_all_time_of_the_steps_is_somewhere() -> None:
    """Whatever the stacks, each step's time is that of its stays, and lines and what is below them add up to it."""
    chance = random.Random(7)
    frames = (USER, STEP, CLIP, TORCH, MODEL)
    for _ in range(30):
        at, seen = 0, []
        while at < 95:
            seen.append((at, tuple(chance.choice(frames) for _ in range(chance.randrange(5)))))
            at += chance.randrange(1, 12)
        marks = (0, *sorted(chance.sample(range(1, 95), 4)), 95)
        found = sampled_run(seen, 95, marks=marks)
        for step, ns in enumerate(found.host_ns):
            assert sum(stay.ns for stay in found.stays if stay.step == step) == ns
        of = sampled_of(found, 50 * MS)
        lines = host_lines(of)
        assert lines["percent"].sum() == pytest.approx(100)
        assert lines["step_ns"].sum() == pytest.approx(50 * MS)


def sampled_of(found: Samples, clean_ns: float | None) -> Sampled:
    return Sampled(msgspec.structs.replace(found, rate_hz=500.0), clean_ns)


def test_libraries_count_for_the_line_that_called_them() -> None:
    other = events(2, "thread (8): loader", [(0, (("wait", "/usr/lib/python3.12/queue.py", 3),))], 2_000_000)
    of = sampled_of(sampled_run([(0, (USER, STEP)), (6, (USER, CLIP, TORCH))], 20, other), 5 * MS)
    lines = host_lines(of)
    assert lines.select("short_name", "function", "percent", "step_ns", "samples", "mostly_in", "other").rows() == [
        ("clip.py:7", "clip", 70.0, 3.5 * MS, 7, "functional.py:1866 norm", False),
        ("train.py:12", "step", 30.0, 1.5 * MS, 3, None, False),
        (NO_LINE, None, 100.0, 5.0 * MS, 10, "queue.py:3 wait", True),
    ]
    assert lines["called_from"].to_list() == ["train.py:40 <module>", "train.py:40 <module>", None]
    assert host_lines(sampled_of(of.file, None))["step_ns"].null_count() == 3, "without clean steps it is not known"
    assert host_lines(None).height == 0


@pytest.mark.parametrize("seen", [("_stand_before",), ("_stand_after",), ()])
def test_one_end_of_the_steps_is_enough_to_find_them_by_the_sampler_s_clock(seen: tuple[str, ...]) -> None:
    """The sampler's clock is 5 ms ahead; steps are from 10 to 20 ms of ours."""
    ends = [(at, name) for at, name in ((3_000, "_stand_before"), (25_000, "_stand_after")) if name in seen]
    stood = {name: (USER, (name, CHILD, 1)) for name in seen}
    told = {
        "pid": 7, "thread": 1, "moments": {"began": 10 * MS, "ended": 20 * MS}, "marks": [10 * MS, 20 * MS],
        "step_ns": [10 * MS], "host_ns": [10 * MS],
    }  # fmt: skip
    at = sorted([*((at, stood[name]) for at, name in ends), (15_000, (USER, STEP)), (21_000, (USER, CLIP))])
    own = events(1, "thread (7)", at, 60_000)
    if not seen:
        with pytest.raises(ValueError, match="saw the steps neither begin nor end"):
            samples_of(own, told)
    else:
        assert by_line(samples_of(own, told)) == {(0, "train.py:12"): 6, (0, "clip.py:7"): 4}


# --- the file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "it is damaged"),
        ("[]", "it holds no samples"),
        ('{"schema": "other/1"}', "it holds no samples"),
        ('{"schema": "tracetui.samples/1", "host_ns": [1], "stays": [{"stack": 4, "ns": 1}]}', "it is damaged"),
        ('{"schema": "tracetui.samples/1", "frames": 3}', "it is damaged"),
        ("{" * 5000, "it is damaged"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / samples.FILE).write_text(text)
    found, said = samples.load(tmp_path)
    assert found is None
    assert said is not None
    assert said.endswith(problem)
    assert "\n" not in said


def test_only_a_file_of_bounded_size_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert samples.load(tmp_path) == (None, None)
    os.mkfifo(tmp_path / samples.FILE)  # to open it would wait for ever
    assert "not a file" in str(samples.load(tmp_path)[1])
    (tmp_path / samples.FILE).unlink()
    (tmp_path / samples.FILE).write_bytes(msgspec.json.encode(sampled_run([(0, (USER,))], 20)))
    assert samples.load(tmp_path)[0] is not None
    monkeypatch.setattr(samples, "_MAX_BYTES", 10)
    assert "larger than" in str(samples.load(tmp_path)[1])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A recorded run with samples beside it."""
    folder = tmp_path / "run"
    shutil.copytree(recorded("two_passes"), folder)
    manifest = json.loads((folder / "run.json").read_text())
    manifest["measurement"]["clean_step_ns"] = [8 * MS, 12 * MS]
    (folder / "run.json").write_text(json.dumps(manifest))
    other = events(2, "thread (8): loader", [(0, (("wait", "/home/ann/data.py", 3),))], 2_000_000)
    found = sampled_run([(0, (USER, STEP)), (6, (USER, STEP, CLIP, TORCH))], 20, other)
    known = {
        "run_id": manifest["identity"]["run_id"],
        "sampler": "py-spy 0.4.3",
        "rate_hz": 500.0,
        "samples": 99,
        "errors": 3,
    }
    whole = msgspec.structs.replace(found, behind=False, **known)
    (folder / samples.FILE).write_bytes(msgspec.json.encode(whole))
    return folder


def test_reports_have_the_lines(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(form: str) -> str:
        assert main(["report", str(run), "--section", "host_lines", "--format", form, "--no-cache"]) == 0
        return capsys.readouterr().out

    trace = json.loads(printed("json"))["run"]["traces"][0]
    assert [(row["name"], row["percent"], row["other"]) for row in trace["host_lines"]] == [
        ("/home/ann/clip.py:7", 70.0, False),
        ("/home/ann/train.py:12", 30.0, False),
        ("/home/ann/data.py:3", 100.0, True),
    ]
    assert trace["host_lines_sampled"]["steps"] == 2
    assert trace["host_lines_sampled"]["step_us"] == 10_000.0
    assert trace["host_lines"][0]["step_us"] == 7_000.0, "its share of the mean clean step"
    assert printed("csv").splitlines()[1].startswith("/home/ann/clip.py:7,clip,")
    for form in ("text", "markdown", "html"):
        said = " ".join(printed(form).split())
        assert (
            "Sampled 500 times a second over 2 steps (10 samples), without a profiler; a step took 10.00 ms meanwhile"
            in said
        )
        assert "3.03 % of the samples lost" in said
        # a page names its headings before its tables
        assert said.index("clip.py:7") < said.rindex("Lines of other threads meanwhile") < said.rindex("data.py:3")


def test_samples_are_of_one_run_and_one_process(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = run / samples.FILE
    known = json.loads(file.read_text())
    trace = open_path(run, cache=False).main
    assert sampled(trace)[0] is not None
    for other in ({"run_id": "another"}, {"run_id": None}, {"rank": 3}):
        file.write_text(json.dumps({**known, **other}))
        assert sampled(trace) == (None, None)
    file.write_text("{")
    assert main(["report", str(run), "--section", "host_lines", "--no-cache"]) == 0
    assert "it is damaged" in " ".join(capsys.readouterr().out.split())
    file.unlink()
    assert main(["report", str(run), "--section", "host_lines", "--no-cache"]) == 0
    assert "No samples of the program's lines" in " ".join(capsys.readouterr().out.split())


def test_a_copy_for_others_has_no_home(run: Path, tmp_path: Path) -> None:
    scrub([run], tmp_path / "copy")
    text = (tmp_path / "copy" / samples.FILE).read_text()
    assert "ann" not in text
    copy, problem = samples.load(tmp_path / "copy")
    assert problem is None
    assert copy is not None
    assert [(frame.file.rpartition("/")[2], frame.line) for frame in copy.frames][:2] == [
        ("train.py", 40),
        ("train.py", 12),
    ]
    assert sampled(open_path(tmp_path / "copy", cache=False).main)[0] is not None


# --- the sampler

FAKE = """#!{python}
import signal, sys, time
place, said = sys.argv[sys.argv.index("--output") + 1], {said!r}
rate = sys.argv[sys.argv.index("--rate") + 1]
open({asked!r}, "a").write(rate + "\\n")
def end(*_):
    open(place, "w").write({written!r})
    print("Samples: 90 Errors: 4", flush=True)
    sys.exit(0)
signal.signal(signal.SIGINT, end)
print(said.get(rate, said["500"]), flush=True)
if {code} is not None:
    sys.exit({code})
time.sleep(60)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a stand-in for py-spy in its place; returns the file with the rates that it was asked for."""

    def put(said: str, *, at_100: str | None = None, written: str = "[]", code: int | None = None) -> Path:
        program, asked = tmp_path / "py-spy", tmp_path / "asked"
        words = {"500": said, "100": at_100 or said}
        program.write_text(FAKE.format(python=sys.executable, said=words, asked=str(asked), written=written, code=code))
        program.chmod(0o755)
        monkeypatch.setattr(sampling, "find", lambda _: program)
        monkeypatch.setattr(sampling, "version", lambda _: "py-spy 0")
        return asked

    return put


def answered(sampler: Sampler, folder: Path, *, gone: bool = False) -> dict[str, Any]:
    """What the sampler answers a child that waits; or waits until it takes its answer away."""

    def has_answered() -> bool:
        sampler.look(Tick("torch", PHASE, pid=None if gone else os.getpid()))
        return (folder / ANSWER).exists() != gone

    eventually(has_answered)
    return {} if gone else json.loads((folder / ANSWER).read_text())


TOLD = {
    "pid": 7, "thread": 1, "moments": {"began": 0, "ended": 20 * MS}, "marks": [0, 20 * MS], "step_ns": [20 * MS],
    "host_ns": [20 * MS], "rank": None,
}  # fmt: skip
BEGUN = "Sampling process 500 times a second"


@pytest.fixture
def sampler(tmp_path: Path) -> Any:
    made = Sampler(ProfileRequest(tmp_path / "out", sample_seconds=1.0), tmp_path)
    yield made
    made.close()
    assert not (tmp_path / ANSWER).exists()


def test_the_sampler_s_own_words_say_why_not(fake: Callable[..., Path], sampler: Sampler, tmp_path: Path) -> None:
    fake("Error: Failed to find a python interpreter in the process", code=1)
    assert answered(sampler, tmp_path) == {"refused": "py-spy: Failed to find a python interpreter in the process"}


def test_a_sampler_that_can_t_start_is_said(sampler: Sampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "find", lambda _: tmp_path / "none")
    assert answered(sampler, tmp_path) == {"refused": "py-spy: no such file or directory"}


def test_samples_are_written_with_what_was_lost(fake: Callable[..., Path], sampler: Sampler, tmp_path: Path) -> None:
    stands = [(("_stand_before", CHILD, 1),), (USER,), (("_stand_after", CHILD, 2),)]
    seen = events(1, "thread (7): MainThread", list(zip((0, 1000, 21_000), stands, strict=True)), 40_000)
    fake(BEGUN, written=msgspec.json.encode(seen).decode())
    assert answered(sampler, tmp_path) == {"rate_hz": 500}
    assert sampler.write("run-1", TOLD) is None
    found, problem = samples.load(tmp_path)
    assert problem is None
    assert found is not None
    assert (found.run_id, found.sampler, found.rate_hz, found.samples, found.errors) == (
        "run-1",
        "py-spy 0",
        500.0,
        90,
        4,
    )
    assert found.behind is False
    assert sum(stay.ns for stay in found.stays) == 20 * MS


@pytest.mark.parametrize("written", ["[]", "{", "[3]", ""])
def test_what_the_sampler_did_not_write_is_said(fake, sampler, tmp_path, written) -> None:
    fake(BEGUN, written=written)
    answered(sampler, tmp_path)
    said = sampler.write("run-1", TOLD)
    assert said is not None
    assert said.startswith("no samples: ")
    assert not (tmp_path / samples.FILE).exists()


def test_one_that_is_behind_begins_anew(fake: Callable[..., Path], sampler: Sampler, tmp_path: Path) -> None:
    asked = fake(f"{BEGUN}\n1.1s behind in sampling, results may be inaccurate", at_100=BEGUN)
    assert answered(sampler, tmp_path) == {"rate_hz": 500}
    answered(sampler, tmp_path, gone=True)
    assert answered(sampler, tmp_path) == {"rate_hz": 100}
    assert asked.read_text().split() == ["500", "100"]


@pytest.mark.parametrize(
    ("scope", "capabilities", "refused"),
    [(None, 0, False), (0, 0, False), (1, 0, False), (2, 0, True), (2, 1 << 19, False), (3, 1 << 19, True)],
)
def test_a_machine_that_forbids_it_is_told_from_one_that_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: int | None, capabilities: int, refused: bool
) -> None:
    monkeypatch.setattr(sampling, "find", lambda _: tmp_path)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text(f"Name:\tpython\nCapEff:\t{capabilities:016x}\n")
    if scope is not None:
        (tmp_path / "proc/sys/kernel/yama").mkdir(parents=True)
        (tmp_path / "proc/sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
    said = why_not(ProfileRequest(tmp_path / "out", sample_seconds=5.0), Probe(tmp_path))
    assert (said is not None) == refused
    assert said is None or f"ptrace_scope is {scope}" in said


def test_who_asks_for_none_is_told_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "find", lambda _: None)
    asking = ProfileRequest(tmp_path / "out", sample_seconds=5.0)
    assert "tracetui[lines]" in str(why_not(asking, Probe()))
    for other in ({"sample_seconds": 0.0}, {"tools": ("nsys",)}, {"window": (1.0, 1.0)}):
        assert why_not(ProfileRequest(tmp_path / "out", **{"sample_seconds": 5.0, **other}), Probe()) is None


# --- the sampled process


def test_a_rank_takes_the_first_one_s_number(monkeypatch: pytest.MonkeyPatch) -> None:
    class Store(dict[str, str]):
        set = dict.__setitem__

        def check(self, keys: list[str]) -> bool:
            return all(key in self for key in keys)

    store = Store()
    monkeypatch.setattr("tracetui.collectors.child.ranks._store", lambda: store)
    monkeypatch.setattr("tracetui.collectors.child.ranks.MEETING_S", 0.05)
    assert first_says({"rank": 1}, "samples", lambda: 9) == 0, "nobody has said a number"
    assert first_says({"rank": 0}, "samples", lambda: 17) == 17
    assert first_says({"rank": 1}, "samples", lambda: 9) == 17
    assert first_says({}, "samples", lambda: 9) == 9


def test_other_ranks_run_as_many_steps_and_mark_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tracetui.collectors.child.ranks.first_says", lambda *_: 4)
    asked = {"rank": 1, "device": "cpu", "out": str(tmp_path), "sample_seconds": 1.0, "sampler_pid": 1}
    sampled_steps = Sampling(asked, Marks("cpu"), Progress(os.devnull))
    while sampled_steps.goes_on():
        sampled_steps.step()
    assert sampled_steps.steps == 4
    assert sampled_steps.measured() is None


PROGRAM = """
import sys, threading, time
sys.path.insert(0, sys.argv[1] + "/child")
from tracetui_child.marks import Marks
from tracetui_child.progress import Progress
from tracetui_child.sampling import Sampling
import json

def spin():
    total = 0
    for number in range(400_000):
        total += number  # planted
    return total

def nap():
    time.sleep(0.01)  # planted

def watch():
    while True:
        time.sleep(0.01)  # meanwhile

threading.Thread(target=watch, name="watcher", daemon=True).start()
spec = {"device": "cpu", "out": sys.argv[1], "sample_seconds": 3.0, "sampler_pid": int(sys.argv[2])}
progress = Progress(sys.argv[1] + "/progress.jsonl")
sampling = Sampling(spec, Marks("cpu"), progress)
spent = {"spin": 0, "nap": 0}
while sampling.goes_on():
    begun = time.perf_counter_ns(); spin(); spent["spin"] += time.perf_counter_ns() - begun
    begun = time.perf_counter_ns(); nap(); spent["nap"] += time.perf_counter_ns() - begun
    sampling.step()
json.dump([sampling.measured(), sampling.skipped, spent], open(sys.argv[1] + "/told.json", "w"))
"""


@pytest.mark.skipif(sampling.find(Probe()) is None, reason="py-spy is not installed (tracetui[lines])")
def test_py_spy_names_the_planted_lines(tmp_path: Path) -> None:
    put_program(tmp_path)
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    for _attempt in range(3):  # on a busy machine the sampler may begin after the steps, and says so
        sampler = Sampler(ProfileRequest(tmp_path / "out", sample_seconds=3.0), tmp_path)
        (tmp_path / "progress.jsonl").unlink(missing_ok=True)
        follow = Follower(tmp_path / "progress.jsonl", Tick("torch", "starting"))
        with subprocess.Popen([sys.executable, str(program), str(tmp_path), str(os.getpid())]) as process:
            while process.poll() is None:
                sampler.look(follow.newest())
                time.sleep(0.05)
        told, skipped, spent = json.loads((tmp_path / "told.json").read_text())
        problem = None if skipped else sampler.write("run-1", told)
        sampler.close()
        if skipped:
            pytest.skip(f"this machine lets no program look into another: {skipped}")
        if problem is None:
            break
    assert problem is None
    found, problem = samples.load(tmp_path)
    assert problem is None
    assert found is not None
    lines = host_lines(sampled_of(found, None))
    source = PROGRAM.splitlines()
    shares: Counter[str] = Counter()
    for name, percent, other in lines.select("short_name", "percent", "other").iter_rows():
        text = source[int(name.rpartition(":")[2]) - 1] if name != NO_LINE else ""
        shares["watch" if other else "nap" if "sleep" in text else "spin" if "number" in text else ""] += percent
    whole = sum(found.host_ns)
    for name, ns in spent.items():
        # a sample's place is sure within a period of 2 ms, and a share within what chance makes of 1,000 samples
        assert shares[name] == pytest.approx(100 * ns / whole, abs=8)
    assert shares["watch"] == pytest.approx(100, abs=2)
    assert [thread.name for thread in found.threads if not thread.steps] == ["watcher"]


async def test_enter_on_a_line_opens_the_stacks_from_it_on(run: Path) -> None:
    async with opened(run, size=(110, 20)) as (app, pilot):
        await press(pilot, "4", "v")
        shown = screen_text(app)
        assert shown.index("clip.py:7") < shown.index("train.py:12") < shown.index("data.py:3")
        assert "Sampled 500 times a second over 2 steps" in shown
        await press(pilot, "enter", "enter")  # the first closes the list of tables
        shown = screen_text(app)
        assert "Lines › clip.py:7" in shown
        assert "functional.py:1866" in shown
        assert "train.py:40" not in shown, "what called it"
