"""A person's own keys: what is understood, what is refused, and that every part of the screen speaks of them."""

import pytest
from sample_runs import FP16, FP32
from tui_pilot import opened, press, screen_text, settle, write

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.keys.keymap import WrongKeyError, key_name, remap, shown_key
from tracetui.app.settings.schema import ColumnChoice, Settings, resolve


@pytest.fixture(autouse=True)
def _defaults_again():
    yield
    commands.use_keys({})


@pytest.mark.parametrize(
    ("written", "name", "shown"),
    [
        ("f", "f", "f"), ("F", "F", "F"), ("/", "slash", "/"), ("?", "question_mark", "?"), ("+", "plus", "+"),
        ("-", "minus", "-"), (",", "comma", ","), ("F5", "f5", "F5"), ("f5", "f5", "F5"), ("Esc", "escape", "Esc"),
        ("ctrl+x", "ctrl+x", "Ctrl+X"), ("Ctrl+X", "ctrl+x", "Ctrl+X"), ("space", "space", "Space"),
        ("shift+tab", "shift+tab", "Shift+Tab"), ("PgDn", "pagedown", "PgDn"), ("full_stop", "full_stop", "."),
        ("alt+k", "alt+k", "Alt+K"), ("[", "left_square_bracket", "["), ("ä", "ä", "ä"), ("Up", "up", "↑"),
    ],
)  # fmt: skip
def test_keys_as_a_person_writes_them(written, name, shown) -> None:
    assert key_name(written) == name
    assert shown_key(name) == shown


@pytest.mark.parametrize(
    "written", ["", "foo", "ctrl+shift+a", "shift+a", "ctrl+i", "ctrl+m", "hyper+a", "\x07", "ctrl+"]
)
def test_what_is_no_key_is_refused(written) -> None:
    with pytest.raises(WrongKeyError):
        key_name(written)


def test_every_default_key_is_written_as_it_is_read() -> None:
    for command in commands.DEFAULTS:
        for key in filter(None, command.keys.split(",")):
            assert key_name(key) == key
            assert (
                key_name(
                    shown_key(key).replace("↑", "up").replace("↓", "down").replace("←", "left").replace("→", "right")
                )
                == key
            )


def keys_of(remapped, id: str) -> str:
    return next(command.keys for command in remapped.commands if command.id == id)


def test_a_key_is_taken_from_what_had_it_in_the_same_tab() -> None:
    found = remap(commands.DEFAULTS, {"sort.reverse": ["c"]})
    assert keys_of(found, "sort.reverse") == "c"
    assert keys_of(found, "table.columns") == ""
    assert found.changed["table.columns"] == commands.UNBOUND
    assert found.problems == ("keys.sort.reverse: c is taken from table.columns, which has no key now",)


def test_keys_of_tabs_that_do_not_meet_are_left_alone() -> None:
    found = remap(commands.DEFAULTS, {"table.filter": ["F"]})
    assert keys_of(found, "timeline.fit") == "F,home"
    assert not found.problems


def test_two_wishes_for_one_key_and_a_swap() -> None:
    found = remap(commands.DEFAULTS, {"table.filter": ["f"], "sort.reverse": ["f", "R"]})
    assert (keys_of(found, "table.filter"), keys_of(found, "sort.reverse")) == ("f", "R")
    assert "keys.sort.reverse: f already belongs to table.filter" in found.problems
    swapped = remap(commands.DEFAULTS, {"sort.reverse": ["c"], "table.columns": ["r"]})
    assert not swapped.problems
    assert (keys_of(swapped, "sort.reverse"), keys_of(swapped, "table.columns")) == ("c", "r")


def test_wishes_that_can_not_be_met() -> None:
    found = remap(commands.DEFAULTS, {"table.fliter": ["f"], "sort.reverse": ["nope"], "app.quit": [], "copy.row": []})
    assert "keys: there is no action table.fliter; did you mean table.filter?" in found.problems
    assert keys_of(found, "sort.reverse") == "r"
    assert keys_of(found, "app.quit") == "ctrl+q"
    assert keys_of(found, "copy.row") == ""


def test_what_goes_first_on_purpose_stays_so() -> None:
    """Esc closes what is open, and stops reading where nothing is: both keep it."""
    found = remap(commands.DEFAULTS, {"go.back": ["escape", "f9"]})
    assert keys_of(found, "go.back") == "escape,f9"
    assert keys_of(found, "load.stop") == "escape"
    assert not found.problems


def test_the_key_that_the_tab_bar_shows_works_in_every_tab() -> None:
    of_tabs = {tab.key for tab in tabs.TABS}
    assert len(of_tabs) == len(tabs.TABS)
    others = [command for command in commands.DEFAULTS if not command.id.startswith("tab.")]
    assert [command.id for command in others if of_tabs & set(command.keys.split(","))] == []


async def test_footer_help_palette_tabs_and_keys_follow() -> None:
    wishes = {
        "table.filter": ("a",),
        "sort.reverse": ("c", "R"),
        "tab.host": ("H",),
        "copy.row": (),
        "theme.light": ("F6",),
    }
    async with opened(FP32, tab="kernels", size=(120, 30), settings=Settings(keys=wishes)) as (app, pilot):
        assert "c is taken from table.columns" in screen_text(app).splitlines()[-1]
        await press(pilot, "down")
        assert "a filter" in screen_text(app).splitlines()[-1]
        assert "/ filter" not in screen_text(app)
        assert "H Host" in screen_text(app).splitlines()[1]
        await press(pilot, "a")
        await write(pilot, "scan")
        assert app.session.filter == "scan"
        await press(pilot, "escape")
        await press(pilot, "slash")
        assert app.shell.prompt is None, "the former key does nothing"
        await press(pilot, "c")
        assert app.view.table.sort == ("total_ns", False)
        await press(pilot, "R")
        assert app.view.table.sort == ("total_ns", True)
        await press(pilot, "question_mark")
        text = screen_text(app)
        assert "  a              Filter as you type" in text
        await press(pilot, "escape", "f6")
        assert app.theme == "light"
        await press(pilot, "ctrl+p")
        await write(pilot, "filter as")
        assert "Filter as you type  (a)" in screen_text(app)
        await press(pilot, "escape", "H")
        await settle(pilot)
        assert app.tab == "host"


async def test_what_is_wrong_with_keys_is_said_on_the_screen(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRACETUI_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text('[keys]\n"sort.reverse" = "c"\n')
    async with opened(FP32, tab="kernels", settings=resolve({}, [], {})) as (app, pilot):
        assert "c is taken from table.columns" in app.session.runs["a"].warnings[0]
        assert app.session.runs["a"].warnings[0].startswith(str(tmp_path / "config.toml"))
        await press(pilot, "exclamation_mark")
        assert "is taken from" in " ".join(screen_text(app).split())


async def test_an_app_without_wishes_has_the_defaults_after_one_that_had_some() -> None:
    async with opened(FP32, tab="kernels", settings=Settings(keys={"table.filter": ("f",)})):
        assert commands.key("table.filter") == "f"
    async with opened(FP32, tab="kernels") as (app, pilot):
        assert commands.COMMANDS == commands.DEFAULTS
        await press(pilot, "slash")
        assert app.shell.prompt.question.purpose == "filter"


@pytest.mark.parametrize(
    ("tab", "key", "said"),
    [
        ("overview", "v", "v works in tables: next table of this tab, and the list of them"),
        ("kernels", "X", "X works in Timeline: show hidden lanes again"),
        ("memory", "full_stop", ""),
        ("kernels", "full_stop", "The details are closed: d opens them"),
        ("timeline", "less_than_sign", "The details are closed: i opens them"),
        ("diff", "y", "There are no rows here"),
        ("timeline", "K", ""),
        ("kernels", "f9", ""),
    ],
)
async def test_a_key_of_another_tab_says_where_it_works(tab, key, said) -> None:
    async with opened(FP32, tab=tab) as (app, pilot):
        await press(pilot, key)
        if said:
            assert said in screen_text(app)
        else:
            assert " works in " not in screen_text(app).splitlines()[-1]


async def test_columns_of_a_file_and_of_the_screen(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("TRACETUI_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("TRACETUI_NO_STATE", raising=False)
    (tmp_path / "config.toml").write_text('[columns.kernels]\nshow = ["Max", "std_ns"]\nhide = ["calls", "bogus"]\n')
    first = resolve({}, [], {})
    assert first.columns["kernels"] == ColumnChoice(("Max", "std_ns"), ("calls", "bogus"))
    async with opened(FP32, tab="kernels", size=(120, 30), settings=first) as (app, pilot):
        shown = [column.name for column in app.view.table.shown]
        assert {"max_ns", "std_ns"} <= set(shown)
        assert "calls" not in shown
        assert "columns.kernels has no bogus; there are name, total_ns" in " ".join(app.preferences.problems)
        app.preferences.keeps_state = True
        await press(pilot, "c", "end", "space", "escape")
        chosen = app.session.hidden["kernels"], app.session.pinned["kernels"]
        await press(pilot, "n")
    again = resolve({}, [], {})
    assert again.chosen_columns["kernels"] == chosen
    assert again.names == "full"
    async with opened(FP32, tab="kernels", size=(120, 30), settings=again) as (app, _):
        assert app.session.names == "full"
        assert app.view.table.hidden == chosen[0]


async def test_columns_that_were_only_looked_at_are_not_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("TRACETUI_NO_STATE", raising=False)
    async with opened(FP32, tab="kernels") as (app, pilot):
        app.preferences.keeps_state = True
        await press(pilot, "c", "escape")
        assert not resolve({}, [], {}).chosen_columns
        await press(pilot, "c", "end", "space", "escape")
        assert set(resolve({}, [], {}).chosen_columns) == {"kernels"}
        await press(pilot, "c", "r", "escape")
        assert not resolve({}, [], {}).chosen_columns


async def test_low_bandwidth_can_be_switched_while_one_looks() -> None:
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "ctrl+p")
        await write(pilot, "low bandwidth")
        await press(pilot, "enter")
        assert app.preferences.low_bandwidth
        assert app.theme == "ansi"
        assert app.view.table.jump
        assert "Low bandwidth on" in screen_text(app)
        app.action_low_bandwidth()
        await settle(pilot)
        assert app.theme == "dark"
        assert not app.view.table.jump
        await press(pilot, "3")
        assert not app.view.table.jump
    async with opened(FP32, tab="kernels", settings=Settings(theme="light"), low_bandwidth=True) as (app, pilot):
        assert app.theme == "light", "a theme that was asked for stays"
        assert app.view.table.jump


async def test_the_palette_finds_what_other_tabs_do_and_recordings_opened_before(tmp_path, monkeypatch) -> None:
    from tracetui.app.settings import recent

    monkeypatch.delenv("TRACETUI_NO_STATE", raising=False)
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path))
    recent.remember(FP16, ["chrome"], 1)
    async with opened(FP32, tab="kernels") as (app, pilot):
        await press(pilot, "ctrl+p")
        await write(pilot, "hide the lane")
        assert "Hide the lane  (in Timeline)" in screen_text(app)
        await press(pilot, "enter")
        assert app.tab == "timeline"
        await press(pilot, "ctrl+p")
        await write(pilot, FP16.name)
        assert any(line.split()[:1] == ["open"] for line in screen_text(app).splitlines())
        await press(pilot, "enter")
        await settle(pilot)
        assert app.session.runs["a"].path == FP16


async def test_a_line_about_a_file_at_home_is_short_enough_to_be_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRACETUI_CONFIG_DIR", str(tmp_path / ".config" / "tracetui"))
    (tmp_path / ".config" / "tracetui").mkdir(parents=True)
    (tmp_path / ".config" / "tracetui" / "config.toml").write_text("ascii = 3\n")
    async with opened(FP32, tab="kernels", settings=resolve({}, [], {})) as (app, _):
        assert "~/.config/tracetui/config.toml: ascii = 3: allowed is true, false" in screen_text(app)
