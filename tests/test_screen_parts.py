"""The application is made of parts, each of which can be held alone; views reach it by messages and a host."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.message import Message

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.screen import restoring as left
from tracetui.app.screen.history import KEPT, Navigation
from tracetui.app.screen.preferences import Preferences
from tracetui.app.screen.tui import TracetuiApp
from tracetui.app.session.session import Session
from tracetui.app.settings.schema import Settings
from tracetui.app.text import fitting
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.views import view_class
from tracetui.app.views.common import messages
from tracetui.app.views.common.base import Host, View
from tracetui.app.views.common.counted import CountedView
from tracetui.app.views.common.table_view import TableView
from tracetui.app.views.kernels import PicturedView
from tracetui.parsers import Run

ASKED = [each for each in vars(messages).values() if isinstance(each, type) and Message in each.__bases__]


def test_the_application_is_one_class() -> None:
    assert [each for each in TracetuiApp.__mro__ if each.__module__.startswith("tracetui")] == [TracetuiApp]


@pytest.mark.parametrize("message", ASKED)
def test_what_a_view_asks_for_has_a_handler(message: type[Message]) -> None:
    assert message.handler_name in vars(TracetuiApp)
    assert message.bubble


def test_the_host_has_all_that_views_see_of_it() -> None:
    host = TracetuiApp([]).host
    seen = vars(Host).keys() | Host.__annotations__.keys()
    assert [name for name in seen if not name.startswith("_") and not hasattr(host, name)] == []


# --- closing: there is no screen any more


def test_what_comes_while_closing_does_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACETUI_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("TRACETUI_NO_STATE", raising=False)
    trace = tmp_path / "trace.json"
    trace.write_text("{}")
    app = TracetuiApp([trace])
    entry = app.session.open["a"]
    entry.hold(Run(trace, ()))
    app.session.take("a", "a")
    assert app.preferences.keeps_state
    assert app.shell.closing
    app.shell.say("too late")
    app.shell.show_tab("kernels")
    app.shell.refresh_lines()
    app.navigation.leave()
    app.restorer.save_place()
    assert app.tab == "overview"
    assert app.navigation.visits == []
    assert left.load(trace) is None


# --- the way back


class FakeView:
    """A tab whose place is a number."""

    COMPARES = False

    def __init__(self, tab: str) -> None:
        self.TAB, self.at, self.restored = tab, 0, []

    def place(self) -> int:
        return self.at

    def counterpart(self, tab: str) -> str:
        return ""

    def sorts(self) -> dict[str, None]:
        return {}

    arranged = sorts

    def is_at(self, place: int) -> bool:
        return place == self.at

    def weight(self, place: int) -> int:
        return 0

    def restore(self, place: int) -> None:
        self.at = place
        self.restored.append(place)


class FakeShell:
    """Tabs without widgets."""

    def __init__(self) -> None:
        self.tab, self.said = "kernels", ""
        self.tabs = {tab: FakeView(tab) for tab in ("kernels", "host")}

    @property
    def view(self) -> FakeView:
        return self.tabs[self.tab]

    def views(self) -> Iterable[FakeView]:
        return self.tabs.values()

    def made(self, tab: str) -> FakeView:
        return self.tabs[tab]

    def show_tab(self, tab: str) -> None:
        self.tab = tab

    def say(self, words: str) -> None:
        self.said = words

    def refresh_lines(self) -> None:
        """Nothing to paint."""


@pytest.fixture
def way():
    session, shell = Session(), FakeShell()
    session.add((Path("a.json"),))
    session.take("a", "a")
    return Navigation(session, shell, SimpleNamespace(look_at=None)), shell, session


def test_one_comes_back_to_each_place_once(way):
    navigation, shell, session = way
    for at in range(3):
        shell.view.at = at
        navigation.leave()
        navigation.leave()  # the same place again is no other one
    session.filter = "gemm"
    navigation.to_tab("host")
    for _ in range(4):  # host, the filter, and two places more
        navigation.back()
    assert shell.tab == "kernels"
    assert shell.tabs["kernels"].restored == [1, 0]
    assert session.filter == ""
    navigation.back()
    assert shell.said == "There is no earlier place to go back to"


def test_the_way_back_has_an_end(way):
    navigation, shell, _ = way
    for at in range(2 * KEPT):
        shell.view.at = at
        navigation.leave()
    assert [visit.inside for visit in navigation.visits] == list(range(KEPT, 2 * KEPT))


def test_a_finding_is_come_back_to_with_the_filter_there(way):
    navigation, shell, session = way
    session.filter = "mine"
    shell.tabs["host"].open_at = lambda table, row: None
    navigation.show_rows(SimpleNamespace(tab="host:ranges", filter="its own", row="x"))
    assert (shell.tab, session.filter, navigation.usual_filter) == ("host", "its own", "mine")
    assert navigation.came_from_finding
    assert navigation.come_back(only_here=True)
    assert (shell.tab, session.filter, navigation.visits) == ("kernels", "mine", [])
    assert not navigation.come_back()


# --- what a person prefers


def test_a_theme_that_needs_more_colours_gives_way(monkeypatch):
    preferences = Preferences(Settings(), Session(), color="16", low_bandwidth=False, keeps_state=False)
    settled, words = preferences.choose_theme("light")
    assert settled != "light"
    assert words == f"Theme: {settled}; light needs more colours than there are (--color)"
    after = [settled]
    while (theme := preferences.theme_after(after[-1])) not in after:
        after.append(theme)
    assert "light" not in after


def test_characters_before_the_first_combining_one_take_one_column():
    for code in range(ord(fitting.FIRST_COMBINING)):
        assert fitting._char_width(chr(code)) == 1, hex(code)
    assert fitting._char_width(fitting.FIRST_COMBINING) == 0
    assert fitting.cell_width("12.3 µs") == 7
    assert fitting.cell_width("e\u0301") == 1
    assert fitting.cell_width("核µ") == 3


@example("ab\u0300ab", 3)
@given(st.text("ab µ…核\u0300", max_size=9), st.integers(2, 9))
def test_as_many_characters_as_fit_are_kept(text, width):
    kept = fitting.fit(text, width)
    if kept == text:
        assert fitting.cell_width(text) <= width
    else:
        begin = kept.removesuffix("…")
        assert kept == f"{begin}…"
        assert text.startswith(begin)
        assert fitting.cell_width(kept) <= width < fitting.cell_width(f"{text[: len(begin) + 1]}…")


@pytest.mark.parametrize("tab", tabs.TABS, ids=tabs.NAMES)
def test_the_view_of_a_tab(tab: tabs.Tab) -> None:
    view = view_class(tab.id)
    assert issubclass(view, View)
    assert tab.id == view.TAB
    assert issubclass(view, TableView) is (tabs.TABLE in tab.can)
    assert issubclass(view, CountedView) is (tabs.UNITS in tab.can)
    assert issubclass(view, PicturedView) is (tabs.LAUNCHES in tab.can)
    assert not tab.can or tabs.TABLE in tab.can
    if tabs.GROUP in tab.can:
        assert issubclass(view, CountedView)
        assert view.GROUPS


def test_no_two_tabs_share_a_name_or_a_key() -> None:
    for names in (tabs.NAMES, [tab.key for tab in tabs.TABS], [tab.short for tab in tabs.TABS]):
        assert len(set(names)) == len(tabs.TABS)


def test_a_tab_is_found_by_its_key_and_by_how_its_name_begins() -> None:
    for tab in tabs.TABS:
        assert commands.find_tab(tab.key) == commands.find_tab(tab.id) == tab.id
    for name in ("", "12", "m", "nothing"):
        with pytest.raises(UsageError):
            commands.find_tab(name)


def test_there_is_no_view_of_another_name() -> None:
    with pytest.raises(KeyError):
        view_class("nothing")


def test_what_has_no_table_can_be_saved_as_a_picture() -> None:
    pictures = {command.where for command in commands.DEFAULTS if command.action == "app.picture"}
    assert pictures == set(tabs.NAMES) - tabs.TABLES
