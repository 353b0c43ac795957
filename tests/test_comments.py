"""Comments on rows: the file beside the recordings, who may read it, and where they are shown."""

import json
import re
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from sample_runs import DATA

from tests.tui_pilot import opened, press, screen_text, settle
from tracetui.app.cli.main import main
from tracetui.parsers.errors import TraceError
from tracetui.parsers.runs.comments import FILE, add_comment, comments_on
from tracetui.parsers.runs.run import Run
from tracetui.parsers.trace import Source, Trace, TraceInfo


def run_in(folder: Path, name: str = "a.json") -> Run:
    path = folder / name
    path.write_text("{}")
    return Run(path, (Trace.empty(TraceInfo("chrome", "Kineto"), Source(path, 2)),))


def test_a_comment_is_one_line_more_and_names_no_path(tmp_path):
    run = run_in(tmp_path)
    other = run_in(tmp_path, "b.json")
    add_comment(run, "kernels", "kernels", "gemm", "slow \n since ü")
    add_comment(other, "kernels", "kernels", "gemm", "of the other run")
    add_comment(run, "ranks", "ranks", "3", "the late one")
    lines = (tmp_path / FILE).read_text().splitlines()
    assert len(lines) == 3
    assert str(tmp_path) not in "".join(lines)
    assert [(one.tab, one.row, one.text) for one in comments_on(run)] == [
        ("kernels", "gemm", "slow since ü"),
        ("ranks", "3", "the late one"),
    ]
    # as after a merge: another order, a line cut short, one that is none
    (tmp_path / FILE).write_text("\n".join([lines[2], "{", '{"at": 5}', *lines[:2], '{"at": "20']))
    assert {one.row for one in comments_on(run)} == {"gemm", "3"}
    add_comment(run, "kernels", "kernels", "relu", "after a torn line")
    assert {one.row for one in comments_on(run)} == {"gemm", "3", "relu"}


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o600), (0o644, 0o644)])
def test_only_who_may_read_the_recording_may_read_the_comments(tmp_path, mode, expected):
    run = run_in(tmp_path)
    run.path.chmod(mode)
    add_comment(run, "kernels", "kernels", "gemm", "slow")
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) & ~0o022 == expected


def test_what_takes_no_comments_says_so_in_a_line(tmp_path, monkeypatch):
    from tracetui import samples

    run = run_in(tmp_path)
    shipped = Path(samples.__path__[0]) / "x" / "a.json"
    bundled = replace(run, traces=(replace(run.traces[0], source=Source(shipped, 2)),))
    with pytest.raises(TraceError, match="ships with tracetui"):
        add_comment(bundled, "kernels", "kernels", "gemm", "slow")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TraceError, match="can't be written"):
        add_comment(run, "kernels", "kernels", "gemm", "slow")
    monkeypatch.setenv("TRACETUI_READ_ONLY", "1")
    with pytest.raises(TraceError, match="nothing is written from here"):
        add_comment(run, "kernels", "kernels", "gemm", "slow")
    assert comments_on(run) == ()


async def test_w_writes_beside_the_row_and_reports_show_it(tmp_path, capsys):
    recording = Path(shutil.copy(DATA / "compiled_mlp.pt.trace.json.gz", tmp_path))
    async with opened(recording, size=(100, 30)) as (app, pilot):
        await press(pilot, "2", "down", "W", *"why", "enter")
        row = screen_text(app).splitlines()
        assert "of kernel time · tensor cores 0 %  Comment: why" in row[2]  # the base of the numbers stays
        await press(pilot, "up")
        row = screen_text(app).splitlines()
        assert "Comment" not in row[2]
        assert [line[0] for line in row[4:7]] == [">", "#", " "]
        await press(pilot, "8", "W", *"todo", "enter")
        assert "Comment: todo" in screen_text(app).splitlines()[2]
    first, second = map(json.loads, (tmp_path / FILE).read_text().splitlines())
    assert first["text"] == "why"
    assert re.fullmatch(r"[A-Z]\d+\b.*", second["row"])  # the finding's key, which no measured number is part of
    assert " " not in second["row"]
    assert main(["report", str(recording), "--section", "memops", "--no-cache"]) == 0
    assert "why" in capsys.readouterr().out
    assert main(["scrub", str(tmp_path), "-o", str(tmp_path / "out")]) == 0
    assert "what people wrote" in capsys.readouterr().out
    assert not (tmp_path / "out" / FILE).exists()


async def test_a_comment_leaves_the_title_its_base_and_is_whole_in_the_details(tmp_path):
    recording = Path(shutil.copy(DATA / "compiled_mlp.pt.trace.json.gz", tmp_path))
    async with opened(recording, size=(80, 24)) as (app, pilot):
        await press(pilot, "2")
        base = " Kernels  steps 1-2 · 34.56 µs of kernel time"
        assert screen_text(app).splitlines()[2].startswith(base)
        await press(pilot, "W", *"ask", "space", *"about", "space", *"tiles", "space", *"tomorrow", "enter")
        assert screen_text(app).splitlines()[2].split("  ")[-1].strip() == "1/6"
        assert f"{base}  # ask about tiles tomorrow  " in screen_text(app)
        await press(pilot, "d")
        assert "Comment      ask about tiles tomorrow" in screen_text(app)
        await pilot.resize_terminal(60, 24)
        await settle(pilot)
        assert f"{base}  #  " in screen_text(app)


def test_a_comment_takes_the_place_of_the_one_it_names_and_of_no_other(tmp_path):
    run = run_in(tmp_path)
    add_comment(run, "kernels", "kernels", "gemm", "slow")
    add_comment(run, "kernels", "kernels", "relu", "slow")
    add_comment(run, "kernels", "kernels", "gemm", "also on the A100")
    add_comment(run, "kernels", "kernels", "gemm", "slow since May", replaces="slow")
    assert [(one.row, one.text) for one in comments_on(run)] == [
        ("relu", "slow"),
        ("gemm", "also on the A100"),
        ("gemm", "slow since May"),
    ]
    add_comment(run, "kernels", "kernels", "gemm", "", replaces="slow since May")
    add_comment(run, "kernels", "kernels", "relu", "", replaces="slow")
    assert [(one.row, one.text) for one in comments_on(run)] == [("gemm", "also on the A100")]
    add_comment(run, "kernels", "kernels", "relu", "slow")  # a comment removed once can be written again
    assert [one.row for one in comments_on(run)] == ["gemm", "relu"]


async def test_a_comment_can_be_changed_or_removed(tmp_path):
    recording = Path(shutil.copy(DATA / "compiled_mlp.pt.trace.json.gz", tmp_path))
    async with opened(recording, size=(100, 30)) as (app, pilot):
        await press(pilot, "2", "W", *"why", "enter", "W", "enter")  # the same again is not written
        await press(pilot, "W", "question_mark")
        assert "empty removes it" in screen_text(app)
        await press(pilot, "enter")
        assert "Comment: why?" in screen_text(app)
        await press(pilot, "W", "ctrl+u", *"so", "enter")
        assert "Comment: so" in screen_text(app)
        await press(pilot, "W", "ctrl+u", "enter")
        assert "Comment" not in screen_text(app)
        assert "removed" in screen_text(app)
        assert not any(line.startswith(("#", ">#")) for line in screen_text(app).splitlines())
        await press(pilot, "W", "enter")  # nothing is not written
    lines = (tmp_path / FILE).read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["why", "why?", "so", ""]
