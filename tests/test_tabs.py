"""The registry of tabs: what a record names is there, and the keys follow from it."""

from __future__ import annotations

import pytest

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.text.exit_codes import UsageError
from tracetui.app.views import view_class
from tracetui.app.views.common.base import View
from tracetui.app.views.common.counted import CountedView
from tracetui.app.views.common.launch_picture import PicturedView
from tracetui.app.views.common.table_view import TableView


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
