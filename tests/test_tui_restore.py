"""What is kept from one visit to the next: recent recordings, and where each was left."""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from sample_runs import FP16, FP32, linked, recorded
from textual.widgets import Input
from tui_pilot import lines, opened, press, screen_text, settle, write

from tracetui.app.screen import restoring as left
from tracetui.app.screen.dialogs.common import StartScreen
from tracetui.app.screen.dialogs.start_list import entries, plain, recordings_in, short_path, traces_beside
from tracetui.app.screen.restoring import Left
from tracetui.app.settings import recent, state

NOW = 1_700_000_000.0


@pytest.fixture(autouse=True)
def data(tmp_path_factory) -> Iterator[Path]:
    """A data folder of this test's own, in which things are remembered."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACETUI_DATA_DIR", str(folder))
        patch.delenv("TRACETUI_NO_STATE")
        yield folder


@pytest.fixture(scope="module")
def kept_trace(tmp_path_factory) -> Path:
    """A recording that stays where it is for all tests, so that screens share what they compute of it."""
    return linked(FP32, tmp_path_factory.mktemp("kept") / "one.pt.trace.json.gz")


@pytest.fixture
def trace(tmp_path) -> Path:
    """The same in this test's folder."""
    return linked(FP32, tmp_path / "one.pt.trace.json.gz")


def files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.iterdir() if ".trace." in file.name)


# --- recent recordings


def test_what_was_opened_is_listed_newest_first_and_once(tmp_path, data):
    for at, name in enumerate(["x", "y", "x"]):
        recent.remember(tmp_path / name, ["chrome", "ncu", "chrome", "no such tool"], 10 + at, now=NOW + at)
    found = recent.recents()
    assert [(entry.path.name, entry.bytes, entry.kinds) for entry in found] == [
        ("x", 12, ("chrome", "ncu")),
        ("y", 11, ("chrome", "ncu")),
    ]
    assert stat.S_IMODE((data / "recent.json").stat().st_mode) == 0o600
    # nothing of a recording but path, kinds, size and when
    assert {key for entry in json.loads((data / "recent.json").read_text())["opened"] for key in entry} == {
        "path", "kinds", "bytes", "opened",
    }  # fmt: skip


def test_no_more_than_some_are_kept(tmp_path):
    for at in range(recent.KEPT + 5):
        recent.remember(tmp_path / f"run{at}", ["chrome"], 1, now=NOW + at)
    found = recent.recents()
    assert len(found) == recent.KEPT
    assert found[0].path.name == f"run{recent.KEPT + 4}"


@pytest.mark.parametrize("value", ["1", "yes"])
def test_nothing_is_remembered_where_that_is_switched_off(tmp_path, data, monkeypatch, value):
    recent.remember(tmp_path, ["chrome"], 1)
    monkeypatch.setenv("TRACETUI_NO_STATE", value)
    assert recent.recents() == []
    recent.remember(tmp_path / "other", ["chrome"], 1)
    left.store(tmp_path, Left(tab="kernels"), [])
    left.forget(tmp_path)
    assert left.load(tmp_path) is None
    assert sorted(path.name for path in data.iterdir()) == ["recent.json"]
    monkeypatch.setenv("TRACETUI_NO_STATE", "0")
    assert [entry.path for entry in recent.recents()] == [tmp_path]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"opened": 3}',
        '{"opened": [3, null, {}, {"path": 4, "opened": 1}, {"path": "", "opened": 1}, {"path": "/x"}]}',
        '{"opened": [{"path": "/x", "opened": "now"}, {"path": "/x", "opened": true}]}',
        '{"opened": [{"path": "a\\u0000b", "opened": 1}]}',
        '{"opened": [{"path": "/x", "opened": 1e300}, {"path": "/x", "opened": -1}, {"path": "/x", "opened": NaN}]}',
        '{"opened": ' + "[" * 5000 + "]" * 5000 + "}",
    ],
)
def test_a_damaged_list_is_as_good_as_none(data, content):
    (data / "recent.json").write_text(content)
    assert recent.recents() == []
    recent.remember(Path("/good"), [], None, now=NOW)
    assert [entry.path for entry in recent.recents()] == [Path("/good")]


def test_of_a_damaged_entry_what_is_intact_is_kept(data):
    entry = {"path": "/x", "opened": NOW, "kinds": ["nsys", 4, None, [], {}, "vtune"], "bytes": -3}
    (data / "recent.json").write_text(
        json.dumps({"opened": [entry, {**entry, "path": "/y", "kinds": "nsys", "bytes": True}]})
    )
    assert [(found.kinds, found.bytes) for found in recent.recents()] == [(("nsys",), None), ((), None)]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, trace):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, where a folder should be")
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(blocked / "below"))
    recent.remember(trace, ["chrome"], 1)
    left.store(trace, Left(), [trace])
    assert recent.recents() == []
    assert left.load(trace) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"), (59, "just now"), (60, "1 min ago"), (3599, "59 min ago"), (3600, "1 h ago"),
        (86399, "23 h ago"), (86400, "1 d ago"), (6.9 * 86400, "6 d ago"), (8 * 86400, "a week ago"),
        (27 * 86400, "3 weeks ago"),
    ],
)  # fmt: skip
def test_how_long_ago(seconds, words):
    assert recent.age(NOW - seconds, NOW) == words
    assert recent.age(0, NOW).startswith(("1970-", "1969-"))


def test_recordings_of_a_folder_are_told_by_their_content(tmp_path, trace):
    (tmp_path / "package.json").write_text('{"name": "no trace"}')
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "t.json").write_text('{"traceEvents": []}')
    (tmp_path / ".hidden.trace.json").write_text('{"traceEvents": []}')
    os.utime(tmp_path / "deep", (1, 1))
    assert [path.name for path in recordings_in(tmp_path)] == [trace.name, "deep"]
    assert recordings_in(tmp_path / "nowhere") == []


def test_the_list_as_text(tmp_path, trace, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    recent.remember(trace, ["chrome", "ncu"], 2048, now=NOW - 7200)
    recent.remember(Path("/gone/\x1b[31mrun"), ["nsys"], None, now=NOW - 86400)
    text = plain(entries(tmp_path, [trace], now=NOW))
    assert text.split("\n")[0] == "In this folder:"
    assert f"  {trace.name}   (Chrome, ncu, 2.000 KiB, 2 h ago)" in text
    assert "(nsys, 1 d ago, missing)" in text
    assert "\x1b" not in text
    assert "tracetui --help" in text
    assert short_path(trace, Path("/elsewhere")) == f"~/{tmp_path.name}/{trace.name}"
    assert "tracetui open --sample" in plain([])
    assert "tracetui profile" in plain([])


# --- the screen that asks which


async def test_without_a_path_the_screen_asks_which(tmp_path, monkeypatch, trace):
    monkeypatch.chdir(tmp_path)
    gone = tmp_path / "gone.json"
    recent.remember(gone, ["nsys"], 3 << 20)
    recent.remember(trace, ["chrome"], 2 << 20)
    async with opened(samples=[FP16]) as (app, pilot):
        assert isinstance(app.screen, StartScreen)
        text = lines(app)
        assert text[2].strip() == "In this folder"
        assert text[3].split()[0].rstrip("/") == trace.name
        assert text[4].strip() == "Opened lately"
        assert text[5].split()[0] == trace.name
        assert text[5].split()[-2:] == ["just", "now"]
        assert "nsys" in text[6]
        assert text[6].endswith("missing")
        assert "Comes with tracetui" in text[7]
        assert all(len(line) <= 80 for line in text)
        await press(pilot, "j", "j", "enter")
        assert lines(app)[-1].startswith(" No longer there: ")
        await press(pilot, "g", "enter")
        await settle(pilot)
        assert not isinstance(app.screen, StartScreen)
        assert trace.name.partition(".")[0] in lines(app)[0]
        assert app.runs.exit_code == 0


async def test_a_path_is_typed_there(tmp_path, monkeypatch, trace):
    monkeypatch.chdir(tmp_path)
    async with opened() as (app, pilot):
        await press(pilot, "o")
        await write(pilot, "nowhere.json")
        await press(pilot, "enter")
        assert "No such file or folder: nowhere.json" in lines(app)[-1]
        await press(pilot, "ctrl+u")
        await write(pilot, trace.name)
        await press(pilot, "enter")
        await settle(pilot)
        assert trace.name.partition(".")[0] in lines(app)[0]


async def test_a_path_that_can_not_be_is_said(tmp_path, monkeypatch, trace):
    monkeypatch.chdir(tmp_path)
    typed = "~no_such_user_here/x.json"
    async with opened() as (app, pilot):
        await press(pilot, "o")
        await write(pilot, typed)
        await press(pilot, "enter")
        assert "No such file or folder: " in lines(app)[-1]
    typed = "x" * 300
    async with opened(trace) as (app, pilot):
        app.action_open_other()
        await settle(pilot)
        app.screen.query_one(Input).focus()
        await write(pilot, typed)
        await press(pilot, "enter")
        assert "No such file or folder: " in lines(app)[-1]


def test_a_link_that_leads_nowhere_hides_nothing(tmp_path, trace):
    (tmp_path / "long.json").symlink_to("y" * 300)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "long.json").symlink_to("y" * 300)
    assert recordings_in(tmp_path) == [trace]
    assert [name for name, _ in traces_beside(tmp_path / "other.json")] == [trace.name + "/" * trace.is_dir(), "runs/"]


async def test_a_run_that_could_not_be_opened_leaves_nothing_to_the_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad, good = tmp_path / "bad.trace.json", linked(FP32, tmp_path / "good.pt.trace.json.gz")
    bad.write_text("hello")
    left.store(bad, Left(tab="memory", filter="gemm", sorts={"kernels": ("calls", True)}, run="x"), [bad])
    async with opened() as (app, pilot):
        await press(pilot, "o")
        await write(pilot, str(bad))
        await press(pilot, "enter")
        await settle(pilot)
        assert isinstance(app.screen, StartScreen)
        await press(pilot, "o")
        await write(pilot, str(good))
        await press(pilot, "enter")
        await settle(pilot)
        assert "a" in app.session.runs
        assert (app.tab, app.session.filter, app.session.sorts, app.runs.run_left) == ("overview", "", {}, "")


def test_what_a_run_was_compared_with_is_found_from_everywhere(tmp_path, monkeypatch, trace):
    files = files_of(trace)
    monkeypatch.chdir(tmp_path)
    left.store(trace, Left(other=Path("two.json")), files)
    (tmp_path / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "deeper")
    assert left.load(trace).other == tmp_path / "two.json"


async def test_what_cannot_be_opened_leads_back_to_the_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.trace.json").write_text("hello")
    async with opened() as (app, pilot):
        await press(pilot, "enter")
        await settle(pilot)
        assert isinstance(app.screen, StartScreen)
        assert "bad.trace.json:notatrace" in "".join(screen_text(app).split())  # wherever a long path breaks the line
        await press(pilot, "escape")
        assert app.runs.exit_code == 0
        assert not app.is_running or app._exit


async def test_with_nothing_to_open_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened() as (app, pilot):
        assert "tracetui open --sample" in screen_text(app)
        assert "tracetui profile vim_tiny" in screen_text(app)
        await press(pilot, "escape")
        assert app._exit


async def test_the_start_screen_in_ascii_and_narrow(tmp_path, monkeypatch, trace):
    monkeypatch.chdir(tmp_path)
    async with opened(size=(60, 12), ascii=True) as (app, _):
        assert screen_text(app).isascii()
        assert all(len(line) <= 60 for line in lines(app))
        assert trace.name[:20] in screen_text(app)


# --- where a run was left


async def leave(path: Path, *keys: str, **options) -> None:
    """Opens a run, presses some keys, and quits."""
    async with opened(path, **options) as (_, pilot):
        await press(pilot, *keys)
        await pilot.press("q")
        await pilot.pause()


async def test_a_run_opens_where_it_was_left(kept_trace):
    async with opened(kept_trace) as (app, pilot):
        await press(pilot, "2", "greater_than_sign", "greater_than_sign", "slash")
        await write(pilot, "gemm")
        await press(pilot, "enter", "T", "left_square_bracket", "j", "right_square_bracket", "2")
        words, window, rows = app.session.range_words, app.session.scope.window, lines(app)[3:8]
        assert window is not None
        await pilot.press("q")
        await pilot.pause()
    async with opened(kept_trace) as (app, pilot):
        assert app.tab == "kernels"
        assert app.session.filter == "gemm"
        assert (app.session.scope.window, app.session.range_words) == (window, words)
        assert lines(app)[3:8] == rows
        assert lines(app)[-1].startswith(" As left: Kernels, / gemm, order, range")
        assert "Z starts over" in lines(app)[-1]
        await press(pilot, "T")
        assert app.view.picture.marks == window
        await press(pilot, "Z")
        assert app.tab == "overview"
        assert (app.session.filter, app.session.scope.window, app.session.sorts) == ("", None, {})
        assert "Started over" in lines(app)[-1]
        await press(pilot, "2")
        assert lines(app)[3] != rows[0]
        assert "1/20" in lines(app)[2]
        await press(pilot, "1", "q")
    async with opened(kept_trace) as (app, _):
        assert app.tab == "overview"
        assert "As left" not in lines(app)[-1]


async def test_the_command_line_goes_before_what_was_left(kept_trace, monkeypatch):
    # however long a screen takes here, only what is quit is a place that was left
    monkeypatch.setattr("tracetui.app.screen.restoring.SAVED_AFTER_SECONDS", 3600)
    await leave(kept_trace, "4", filter="aten")
    async with opened(kept_trace, tab="modules") as (app, _):
        assert (app.tab, app.session.filter) == ("modules", "aten")
    async with opened(kept_trace, filter="") as (app, _):
        assert (app.tab, app.session.filter) == ("host", "")
    async with opened(kept_trace, filter="mm") as (app, _):
        assert app.session.filter == "mm"


async def test_a_changed_file_begins_afresh(tmp_path):
    trace = Path(shutil.copy(recorded("ops/ops.trace.json.gz"), tmp_path / "one.pt.trace.json.gz"))
    await leave(trace, "4")
    assert left.load(trace).tab == "host"
    os.utime(trace, (1, 1))
    assert left.load(trace) is None
    async with opened(trace) as (app, _):
        assert app.tab == "overview"


async def test_without_the_cache_nothing_is_remembered(data):
    trace = recorded("ops/ops.trace.json.gz")
    await leave(trace, "4", cache=False)
    assert list(data.iterdir()) == []
    await leave(trace, "4")
    assert (data / "left.json").exists()
    before = (data / "left.json").read_text(), (data / "recent.json").read_text()
    async with opened(trace, cache=False) as (app, pilot):
        assert app.tab == "overview"
        await press(pilot, "2")
        app.action_afresh()
        await press(pilot, "q")
    assert before == ((data / "left.json").read_text(), (data / "recent.json").read_text())


async def test_run_b_is_offered_and_not_read(trace, tmp_path):
    other = linked(FP16, tmp_path / "two.pt.trace.json.gz")
    async with opened(trace, other) as (app, pilot):
        await press(pilot, "2", "q")
    async with opened(trace) as (app, pilot):
        assert "o Enter: again with two" in lines(app)[-1]
        assert "b" not in app.session.runs
        assert app.session.open["b"].run is None
        await press(pilot, "9")
        assert "was B last time" in screen_text(app)
        await press(pilot, "o", "enter")
        assert "B(b) two" in lines(app)[0]
        await press(pilot, "q")
    shutil.rmtree(other) if other.is_dir() else other.unlink()
    async with opened(trace) as (app, _):
        assert list(app.session.open) == ["a"]


async def test_of_a_folder_the_run_that_was_in_view_comes_back(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, source in (("a_half", FP16), ("b_full", FP32)):
        linked(source, folder / f"{name}.pt.trace.json.gz")
    async with opened(folder) as (app, pilot):
        await press(pilot, "G", "enter")
        assert "(b) b_full" in lines(app)[0]
        await press(pilot, "3", "q")
    async with opened(folder) as (app, _):
        assert "(b) b_full" in lines(app)[0]
        assert app.tab == "operators"
        assert "runs in" not in screen_text(app)
        assert recent.recents()[0].path == folder
    async with opened(folder, run="a") as (app, _):
        assert "(a) a_half" in lines(app)[0]


async def test_what_a_tab_was_is_noted_before_quitting(kept_trace):
    async with opened(kept_trace) as (_, pilot):
        await press(pilot, "3")
        assert left.load(kept_trace).tab == "operators"


async def test_damaged_state_does_no_harm(kept_trace, data):
    sorts = {"kernels": ["no such column", True], "x": 3, "y": ["a"], "z": [1, 2]}
    for change in (
        {"tab": 3, "filter": ["x"], "sorts": sorts, "window": [5, 1], "other": 7, "run": {}, "words": None},
        {"tab": "no such tab", "filter": "x" * 5000, "window": ["a", "b"], "sorts": 3},
        {"window": [0, 2**70], "other": "a\0b"},
    ):
        left.store(kept_trace, Left(tab="kernels"), files_of(kept_trace))
        content = json.loads((data / "left.json").read_text())
        next(iter(content["runs"].values())).update(change)
        (data / "left.json").write_text(json.dumps(content))
        async with opened(kept_trace) as (app, pilot):
            assert app.tab in ("kernels", "overview"), change
            assert app.session.scope.window is None, change
            await press(pilot, "escape", "2")
            assert "selective_scan_fwd_kernel" in screen_text(app), change


def test_a_damaged_file_of_places_is_as_good_as_none(kept_trace, data):
    for content in ("", "{", "[]", '{"runs": 3}', '{"runs": {"x": 3}}', "\ufeff{}", '{"runs": []}'):
        (data / "left.json").write_text(content)
        assert left.load(kept_trace) is None, content
        left.store(kept_trace, Left(tab="kernels"), files_of(kept_trace))
        assert left.load(kept_trace).tab == "kernels", content


def test_a_place_without_files_or_with_odd_ones_is_not_trusted(kept_trace, data):
    for files in ([], 3, [3], [["x"]], [["x", 1, 2]], [["a\0b", 1, 2]], [[3, 1, 2]]):
        state.write("left", {"runs": {str(kept_trace): {"tab": "kernels", "files": files}}})
        assert left.load(kept_trace) is None


def test_a_time_that_no_clock_shows_is_the_oldest(kept_trace):
    state.write("left", {"runs": {"/x": {"saved": 10**400}}})
    left.store(kept_trace, Left(), [kept_trace])
    assert left.load(kept_trace) == Left()


def test_the_oldest_places_go_first(tmp_path):
    for at in range(left.KEPT + 3):
        left.store(tmp_path / f"run{at}", Left(tab="host"), [tmp_path], now=NOW + at)
    assert left.load(tmp_path / "run0") is None
    assert left.load(tmp_path / "run3") is not None


async def test_lists_of_recordings_have_help(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with opened(samples=[FP16]) as (app, pilot):
        assert "? help" in screen_text(app)
        await press(pilot, "question_mark")
        assert "types a path" in screen_text(app)
        assert "Help: which recording?" in screen_text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, StartScreen)
    async with opened(FP32) as (app, pilot):
        await press(pilot, "A", "f1")
        assert "Close this run" in screen_text(app)
        await press(pilot, "escape", "escape", "o")
        assert "? help" in screen_text(app)
        await press(pilot, "f1")
        assert "Help: recordings" in screen_text(app)
