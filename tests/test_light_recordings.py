"""A run's light recording: found beside the rich one, read when asked for, and never taken for a second capture."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from as_json import report
from chrome_file import ChromeFile
from sample_runs import recorded

from tracetui.analysis.captures.captures import captures
from tracetui.app.cli.main import main
from tracetui.collectors.scrub import scrub
from tracetui.collectors.scrubbing.keys import document
from tracetui.collectors.scrubbing.redactor import Redactor
from tracetui.parsers import open_path
from tracetui.parsers.runs import light_pass
from tracetui.parsers.runs.detect import comparable_files, inspect

if TYPE_CHECKING:
    from pathlib import Path

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
    assert run.light.info.recorded_pass == light_pass.LIGHT
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
        assert run.main.info.recorded_pass == light_pass.RICH
        assert run.light is not None
        assert run.light.info.recorded_pass == light_pass.LIGHT
    assert inspect(folder / LIGHT).run_id == run.main.info.run_id
