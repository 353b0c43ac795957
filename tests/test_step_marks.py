"""Steps of a light recording, whose boundaries stand in the trace's metadata."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from chrome_file import ChromeFile
from sample_runs import recorded, run_of

from tracetui.parsers import open_path
from tracetui.parsers.chrome.cut.cutting import cut
from tracetui.parsers.chrome.marks import UNUSABLE

if TYPE_CHECKING:
    from pathlib import Path

    from tracetui.parsers import Trace

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
