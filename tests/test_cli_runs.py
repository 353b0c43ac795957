"""The command line where there are several runs, or none named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sample_runs import FP16, FP32, linked

from tracetui.app.cli import main as cli
from tracetui.app.cli.commands import open as open_command
from tracetui.app.settings import recent
from tracetui.app.text.exit_codes import DONE, USAGE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two runs."""
    place = tmp_path / "runs"
    place.mkdir()
    linked(FP16, place / "half.pt.trace.json.gz")
    linked(FP32, place / "full.pt.trace.json.gz")
    return place


def opened(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The file that a report is about."""
    code = cli.main(["report", *arguments, "--section", "overview", "--format", "json"])
    out, err = capsys.readouterr()
    assert code == DONE, err
    return str(json.loads(out)["run"]["traces"][0]["source"]["path"]).rpartition("/")[2]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [("a", "full"), ("b", "half"), ("B", "half"), ("half", "half"), ("hal", "half"), ("ull", "full"),
     ("half.pt.trace.json.gz", "half")],
)  # fmt: skip
def test_a_run_of_a_folder_by_letter_or_name(
    folder: Path, wanted: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opened([str(folder), "--run", wanted], capsys) == f"{name}.pt.trace.json.gz"


@pytest.mark.parametrize("wanted", ["c", "x", "nothing", "", "trace"])
@pytest.mark.parametrize("command", ["report", "open"])
def test_a_run_that_is_not_there_is_wrong_usage_and_lists_what_is(
    folder: Path, wanted: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, str(folder), "--run", wanted]) == USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "a full.pt.trace.json.gz, b half.pt.trace.json.gz" in err
    assert ("several such runs" if wanted == "trace" else "no such run") in err


def test_the_only_run_goes_by_its_letter_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "half.pt.trace.json.gz"
    assert opened([str(file), "--run", "a"], capsys) == file.name
    assert cli.main(["report", str(file), "--run", "b"]) == USAGE
    assert "there are a half.pt.trace.json.gz" in capsys.readouterr().err


def test_of_files_that_make_one_run_there_is_none_to_pick(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", *map(str, sorted(folder.iterdir())), "--run", "a"]) == USAGE
    assert "2 paths were given" in capsys.readouterr().err


def test_without_a_terminal_the_run_named_is_the_base(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for path in sorted(folder.iterdir())]
    for wanted, base in (("b", "half"), ("full", "full")):
        assert cli.main(["open", *paths, "--run", wanted]) == DONE
        head = capsys.readouterr().out.split("\n")
        assert next(line for line in head if line.startswith("A ")).split()[1].startswith(base)


def test_more_than_two_runs_need_a_screen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["open", *[str(folder)] * 3]) == USAGE
    assert "without a terminal" in capsys.readouterr().err


def test_tab_filter_and_run_go_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {}

    def run_tui(paths: object, **options: object) -> int:
        asked.update(options, paths=paths)
        return DONE

    monkeypatch.setattr(open_command, "has_terminal", lambda: True)
    monkeypatch.setattr("tracetui.app.screen.run.run_tui", run_tui)
    words = ["open", str(folder), str(folder), str(folder), "--tab", "kern", "--filter", "gemm", "--run", "b"]
    assert cli.main(words) == DONE, capsys.readouterr().err
    assert [asked[name] for name in ("tab", "filter", "run")] == ["kern", "gemm", "b"]
    assert asked["paths"] == (folder,) * 3


def alone(place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`tracetui` without a command, without a terminal."""
    command = [sys.executable, "-m", "tracetui.app"]
    given = {**os.environ, "TRACETUI_NO_STATE": "", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=place, env=given)


def test_alone_it_lists_what_there_is(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(tmp_path / "data")
    monkeypatch.setenv("TRACETUI_DATA_DIR", data)
    monkeypatch.setenv("TRACETUI_NO_STATE", "0")
    recent.remember(folder, ["chrome"], 5 << 20)
    recent.remember(tmp_path / "gone", ["nsys"], 1 << 20)
    done = alone(folder, TRACETUI_DATA_DIR=data)
    assert done.returncode == DONE
    assert done.stderr == ""
    assert "In this folder:" in done.stdout
    assert "full.pt.trace.json.gz" in done.stdout
    assert f"{folder}   (Chrome, 5.000 MiB, just now)" in done.stdout
    assert "missing" in done.stdout
    off = alone(folder, TRACETUI_DATA_DIR=data, TRACETUI_NO_STATE="1")
    assert "In this folder:" in off.stdout
    assert "missing" not in off.stdout


def test_alone_with_nothing_to_list_it_says_what_to_do(tmp_path: Path) -> None:
    done = alone(tmp_path, TRACETUI_DATA_DIR=str(tmp_path / "data"))
    assert done.returncode == DONE
    assert "tracetui open --sample" in done.stdout
    assert "tracetui profile" in done.stdout
    assert not (tmp_path / "data").exists()


def test_a_report_is_not_remembered(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("TRACETUI_NO_STATE")
    opened([str(folder)], capsys)
    assert recent.recents() == []
