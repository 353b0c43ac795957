"""A run's light recording: found beside the rich one, read when asked for, and never taken for a second capture."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from as_json import report
from chrome_file import ChromeFile
from made_frames import EMPTY, made_trace
from sample_runs import recorded, run_of

from tracetui.analysis.captures.captures import captures
from tracetui.analysis.matching.light_times import rows_in_rich
from tracetui.app.cli.main import main
from tracetui.collectors.scrub import scrub
from tracetui.collectors.scrubbing.keys import document
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers import Trace, open_path
from tracetui.parsers.chrome.cut import cut
from tracetui.parsers.chrome.layout import UNUSABLE
from tracetui.parsers.runs import run as runs
from tracetui.parsers.runs.detect import comparable_files, inspect

LIGHT, RICH = "light.pt.trace.json.gz", "trace.pt.trace.json.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with both recordings."""
    return shutil.copytree(recorded("two_passes"), tmp_path / "run")


def small(path: Path, run: str, which: str) -> Path:
    file = ChromeFile(tracetui={"run": run, "pass": which}, baseTimeNanoseconds=0)
    file.launch("gemm", call=(10, 12), kernel=(20, 60))
    return file.write(path)


def names(run: Any) -> list[str]:
    return [trace.source.path.name for trace in run.traces]


def test_a_run_opens_as_its_rich_recording(folder: Path) -> None:
    run = open_path(folder, cache=False)
    assert (run.path, names(run), run.main.source.path.name) == (folder, [RICH], RICH)
    assert (run.others, run.warnings) == ((), ())
    assert run.light is not None
    assert run.light is run.light
    assert run.light.info.recorded_pass == runs.LIGHT
    assert run.light.info.run_id == run.main.info.run_id
    assert [(one.name, one.path.name, one.steps) for one in run.passes] == [("light", LIGHT, 12), ("rich", RICH, 4)]


def test_it_is_read_only_when_it_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetui.parsers.runs import opening

    read = []
    whole = opening._read
    monkeypatch.setattr(opening, "_read", lambda file, watch: read.append(file.path.name) or whole(file, watch))
    run = open_path(folder, cache=False)
    assert read == [RICH]
    assert run.light is not None
    assert read == [RICH, LIGHT]


def test_it_is_no_second_capture(folder: Path) -> None:
    run = open_path(folder, cache=False)
    assert [path.name for path in comparable_files(run)] == [RICH]
    assert captures(run) == []  # one file is nothing to compare
    found = report(run)["run"]
    assert [trace["source"]["path"] for trace in found["traces"]] == [str(folder / RICH)]
    assert found["other_runs"] == []
    assert found["passes"] == [
        {"name": "light", "path": str(folder / LIGHT), "steps": 12},
        {"name": "rich", "path": str(folder / RICH), "steps": 4},
    ]


def test_the_report_names_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder), "--section", "overview"]) == 0
    said = capsys.readouterr().out
    assert LIGHT in said
    assert "One of" not in said


def test_the_rich_file_alone_finds_it_through_run_json(folder: Path) -> None:
    run = open_path(folder / RICH, cache=False)
    assert (run.path, names(run)) == (folder, [RICH])
    assert run.light is not None
    (folder / "run.json").unlink()
    assert open_path(folder / RICH, cache=False).light is None
    assert open_path(folder, cache=False).light is not None  # the files themselves say what they are


@pytest.mark.parametrize("name", ["../light.pt.trace.json.gz", "", "absent.json", RICH, "run.json"])
def test_what_run_json_names_must_be_a_light_recording_of_this_run(folder: Path, name: str) -> None:
    (folder.parent / LIGHT).write_bytes((folder / LIGHT).read_bytes())
    said = json.loads((folder / "run.json").read_text())
    said["measurement"]["passes"][0]["file"] = name
    (folder / "run.json").write_text(json.dumps(said))
    assert open_path(folder / RICH, cache=False).light is None


def test_alone_it_is_a_trace_like_any_other(folder: Path) -> None:
    run = open_path(folder / LIGHT, cache=False)
    assert (names(run), run.light, run.passes) == ([LIGHT], None, ())
    assert run.main.steps.height == 12
    (folder / RICH).unlink()
    left = open_path(folder, cache=False)
    assert (names(left), left.light) == ([LIGHT], None)


def test_both_given_by_name_are_one_run(folder: Path) -> None:
    run = open_path(folder / LIGHT, folder / RICH, cache=False)
    assert names(run) == [RICH]
    assert run.light is not None


def test_of_another_run_it_stands_for_itself(tmp_path: Path) -> None:
    small(tmp_path / "a.pt.trace.json", "r1", "rich")
    small(tmp_path / "b.pt.trace.json", "r2", "light")
    run = open_path(tmp_path, cache=False)
    assert run.light is None
    assert len(run.others) == 1


def test_each_run_of_a_folder_has_its_own(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        small(tmp_path / name / "light.pt.trace.json", name, "light")
        small(tmp_path / name / "trace.pt.trace.json", name, "rich")
        (tmp_path / name / "run.json").write_text('{"schema": "tracetui.run/1"}')
    for place in (0, 1):
        run = open_path(tmp_path, cache=False, choose=lambda _, place=place: place)
        assert run.light is not None
        assert run.light.info.run_id == run.main.info.run_id
        assert [[path.name for path in paths] for _, paths in run.others] == [["trace.pt.trace.json"]]


def test_a_damaged_one_is_no_trace_and_says_why(folder: Path) -> None:
    run = open_path(folder, cache=False)
    (folder / LIGHT).write_bytes(b"")
    assert run.light is None
    assert run.light_pass is not None
    assert run.light_pass.problem is not None
    assert LIGHT in run.light_pass.problem


def test_a_scrubbed_run_still_has_both(folder: Path, tmp_path: Path) -> None:
    scrub([folder], tmp_path / "copy")
    copy = next(path.parent for path in (tmp_path / "copy").rglob(RICH))
    run = open_path(copy, cache=False)
    assert names(run) == [RICH]
    assert run.light is not None
    assert run.light.steps.height == 12


def test_another_pass_is_a_secret() -> None:
    assert document({"pass": "hunter2", "run": "r"}, Redactor()) == {"pass": None, "run": "r"}
    assert document({"pass": "light", "passes": [{"name": "rich"}]}, Redactor()) == {
        "pass": "light",
        "passes": [{"name": "rich"}],
    }


def test_the_cache_keeps_whose_recording_it_is(folder: Path) -> None:
    for _ in range(2):
        run = open_path(folder)
        assert run.main.info.recorded_pass == runs.RICH
        assert run.light is not None
        assert run.light.info.recorded_pass == runs.LIGHT
    assert inspect(folder / LIGHT).run_id == run.main.info.run_id


PASSES = "two_passes"


def recording(*steps: Sequence[Any], before: Sequence[Any] = (), slow: int = 1) -> Trace:
    """Steps of launches; each is a name, or (name, the width of its grid), or (name, width, when its call begins)."""
    host: list[dict[str, Any]] = []
    device: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    now = 0
    for number, work in ((-1, before), *enumerate(steps)):
        begin = now
        for one in work:
            name, grid, *more = one if isinstance(one, tuple) else (one, 1)
            call = begin + more[0] if more else now
            host.append({"kind": "runtime", "name": "cudaLaunchKernel", "start": call, "duration": 2, "depth": 0})
            is_copy = name.startswith("Memcpy")
            row = {"kind": "memcpy" if is_copy else "kernel", "name": name, "start": now + 5, "duration": 3 * slow}
            row |= {"launch": len(host) - 1, "step": None if number < 0 else number, "stream": 7, "device": 0}
            device.append(row | {"grid": None if is_copy else [grid, 1, 1]})
            now += 10 * slow
        if number >= 0:
            marks.append({"index": number + 1, "name": f"step {number + 1}", "start": begin, "duration": now - begin})
    return made_trace(steps=marks, host=host, device=device)


def test_steps_are_compared_in_turn() -> None:
    step = ["a", ("b", 2), "a", "Memcpy HtoD (Pinned -> Device)"]
    light = recording(step, step, step, before=step)
    rich = recording(step, step, slow=4)
    assert rows_in_rich(light, rich).tolist() == [-1] * 4 + [0, 1, 2, 3] + [4, 5, 6, 7] + [0, 1, 2, 3]


def test_steps_of_two_kinds_are_compared_with_their_own_kind() -> None:
    short, long = ["a", "b"], ["a", "c", "c", "d"]
    rich = recording(short, long, short)
    rows = [0, 1], [2, 3, 4, 5], [6, 7]
    assert rows_in_rich(recording(long, short, long), rich).tolist() == rows[1] + rows[2] + rows[1]
    # the last one has a launch more, and is still most like the long one
    assert rows_in_rich(recording(short, long, [*long, "e"]), rich).tolist() == rows[0] + rows[1] + [*rows[1], -1]


def test_what_has_no_partner_has_no_row() -> None:
    light = recording(["a", "new", ("b", 3), "c", "c"])
    rich = recording(["a", ("b", 2), "c", "gone"])
    assert rows_in_rich(light, rich).tolist() in ([0, -1, -1, 2, -1], [0, -1, -1, -1, 2])


def test_threads_that_took_turns_differently_are_paired_by_kind() -> None:
    light = recording(["f1", "g1", "f2", "g2", "f3", "g3"])
    rich = recording(["g1", "g2", "g3", "f1", "f2", "f3"])
    assert rows_in_rich(light, rich).tolist() == [3, 0, 4, 1, 5, 2]


def test_the_order_is_that_of_the_launches_not_of_the_work() -> None:
    light = recording([("a", 1, 0), ("a", 2, 4), ("a", 1, 2)])  # the third was launched before the second
    rich = recording([("a", 1), ("a", 1), ("a", 2)])
    assert rows_in_rich(light, rich).tolist() == [0, 2, 1]


def test_recordings_without_steps_or_work() -> None:
    work = recording(["a", "b"])
    assert rows_in_rich(work, EMPTY).tolist() == [-1, -1]
    assert rows_in_rich(EMPTY, work).tolist() == []
    assert rows_in_rich(recording(before=["a", "b"]), work).tolist() == [-1, -1]


def test_of_a_real_run_every_launch_is_found() -> None:
    run = run_of(PASSES)
    assert run.light is not None
    rich_row = rows_in_rich(run.light, run.main)
    rows = np.flatnonzero(rich_row >= 0)
    assert rows.size == 12 * 121  # without the two steps that warmed the recording up
    assert set(run.main.device["launch"].is_not_null().arg_true().to_list()) >= set(rich_row[rows].tolist())
    ours, theirs = run.light.device[rows], run.main.device[rich_row[rows]]
    for column in ("kind", "grid", "block", "stream"):
        assert ours[column].equals(theirs[column], null_equal=True), column
    assert ours["name"].cast(str).equals(theirs["name"].cast(str))
    # the same work takes about the same time, which no wrong pairing of 24 kinds of kernels would show
    assert np.corrcoef(ours["duration"].to_numpy(), theirs["duration"].to_numpy())[0, 1] > 0.99
    assert theirs["operator"].null_count() < theirs.height
    assert ours["operator"].null_count() == ours.height


BASE = 1_790_857_026_000_000_000


def trace(tmp_path: Path, marks: Any, *, steps: bool = False, **top: Any) -> Trace:
    """Three launches at 100, 200 and 300 µs; the last kernel runs until 390."""
    own = {"run": "r1", "entry": None, "pass": "light", "marks": marks}
    file = ChromeFile(**{"baseTimeNanoseconds": BASE, "tracetui": own, **top})
    if steps:
        file.step(7, 90, 195)
    for number in range(1, 4):
        at = 100.0 * number
        file.launch("gemm", call=(at, at + 5), kernel=(at + 60, at + 90))
    return open_path(file.write(tmp_path / "light.pt.trace.json"), cache=False).main


def at(*microseconds: float) -> list[int]:
    return [BASE + round(1000 * moment) for moment in microseconds]


def test_steps_lie_between_the_boundaries(tmp_path: Path) -> None:
    found = trace(tmp_path, at(150, 250, 395))
    assert found.steps.rows() == [(1, "step 1", 150_000, 100_000), (2, "step 2", 250_000, 145_000)]
    # by the launch, not by when the work runs: the first kernel runs from 160
    assert found.device["step"].to_list() == [None, 0, 1]
    assert (found.info.run_id, found.info.recorded_pass) == ("r1", "light")
    assert found.notes == ()


def test_steps_of_the_profiler_stand_before_marks(tmp_path: Path) -> None:
    found = trace(tmp_path, at(150, 250, 395), steps=True)
    assert found.steps["name"].to_list() == ["ProfilerStep#7"]


def test_metadata_in_quotes_is_the_same(tmp_path: Path) -> None:
    own = json.dumps({"run": "r1", "pass": "light", "marks": at(150, 250)})
    found = trace(tmp_path, [], tracetui=own)
    assert found.steps["start"].to_list() == [150_000]
    assert found.info.recorded_pass == "light"


@pytest.mark.parametrize(
    ("marks", "why"),
    [
        ("soon", "whole numbers"),
        ([True, False], "whole numbers"),
        ([1.5, 2.5], "whole numbers"),
        ([None], "whole numbers"),
        ([], "0 boundaries"),
        (at(150), "1 boundaries"),
        (at(250, 150), "ascending"),
        (at(150, 150), "ascending"),
        ([150, 250], "outside"),
        (at(-2000, 150), "outside"),
        (at(150, 3000), "outside"),
        ([10**30, 10**31], "outside"),
    ],
)
def test_damaged_marks_are_ignored_with_a_note(tmp_path: Path, marks: Any, why: str) -> None:
    found = trace(tmp_path, marks)
    assert found.steps.height == 0
    assert found.device["step"].null_count() == 3
    (note,) = found.notes
    assert (note.kind, note.reason) == ("missing", UNUSABLE)
    assert why in note.example


def test_marks_need_the_moment_of_the_traces_zero(tmp_path: Path) -> None:
    found = trace(tmp_path, at(150, 250), baseTimeNanoseconds=None)
    assert found.steps.height == 0
    assert [note.reason for note in found.notes] == [UNUSABLE]


@pytest.mark.parametrize("own", [7, [1], "not JSON", {"run": 3, "pass": ["light"]}, None])
def test_other_metadata_of_that_name_says_nothing(tmp_path: Path, own: Any) -> None:
    found = trace(tmp_path, [], tracetui=own)
    assert (found.info.run_id, found.info.recorded_pass, found.notes) == (None, None, ())


def test_a_cut_has_the_marks_of_its_steps(tmp_path: Path) -> None:
    folder = shutil.copytree(recorded("two_passes"), tmp_path / "run")
    whole = open_path(folder / "light.pt.trace.json.gz", cache=False).main
    start, end = whole.steps["start"], whole.steps["start"] + whole.steps["duration"]
    cut(folder / "light.pt.trace.json.gz", folder / "a.trace.json.gz", (start[2], end[4]), steps=start[2:5].to_list())
    found = open_path(folder / "a.trace.json.gz", cache=False).main
    assert found.steps.equals(whole.steps[2:5])
    assert found.notes == ()
    assert found.device.group_by("step").len().filter(pl.col("step").is_not_null())["len"].to_list() == [121] * 3
    # and again, by time: the second of these
    cut(folder / "a.trace.json.gz", folder / "b.trace.json", (start[3] + 1, end[3]))
    assert open_path(folder / "b.trace.json", cache=False).main.steps["name"].to_list() == ["step 4"]
    # neither is the run's light recording, nor is a cut of the rich one the run
    (folder / "run.json").unlink()
    cut(folder / "trace.pt.trace.json.gz", folder / "c.trace.json", (0, 1 << 62))
    run = open_path(folder, folder / "a.trace.json.gz", cache=False)
    assert run.light is not None
    assert run.light.source.path.name == "light.pt.trace.json.gz"
    assert open_path(folder / "c.trace.json", cache=False).main.info.recorded_pass == "cut of rich"


def test_each_step_of_a_real_recording_holds_the_same_launches() -> None:
    found = open_path(recorded("two_passes") / "light.pt.trace.json.gz", cache=False).main
    assert found.notes == ()
    assert found.steps["name"].to_list() == [f"step {number}" for number in range(1, 13)]
    work = found.device.filter(found.device["kind"].is_in(["kernel", "memset"]))
    assert sorted(work.group_by("step").len()["len"].to_list()) == [121] * 12 + [242]  # and two steps of warm-up
    # CUDA events around these 12 steps measured 7.99 ms; the marks end when the host has waited for the last
    assert found.steps["duration"].sum() == pytest.approx(7_986_080, rel=0.005)
    assert run_of("two_passes").main.info.recorded_pass == "rich"
