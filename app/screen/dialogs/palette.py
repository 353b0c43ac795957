"""The palette (Ctrl+P): commands, tables, themes, kernels and modules of the run, open and recent runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.widgets import Input

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.keys.places import PLACES
from tracetui.app.text.fitting import printable

if TYPE_CHECKING:
    from pathlib import Path

    from textual.dom import DOMNode
    from textual.fuzzy import Matcher
    from textual.screen import Screen

    from tracetui.app.keys.keymap import Command
    from tracetui.app.screen.history import Navigation
    from tracetui.app.screen.keyboard import Keyboard
    from tracetui.app.screen.opening import RunLoader
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.session import Session

LIMIT = 50
"""The maximum number of kernels and modules offered at once."""
ALL_WORDS = 100.0
"""Added to the score of a table that has all the words in its names: more than any fuzzy match has."""


def _highlighted(matcher: Matcher, name: str) -> Content:
    """Highlights the matching letters of a name; `Matcher.highlight` would read its brackets as markup."""
    shown = Content(name)
    for at in matcher.fuzzy_search.match(matcher.query, name)[1]:
        shown = shown.stylize(matcher.match_style, at, at + 1)
    return shown


def has_words(title: str, words: list[str]) -> bool:
    """Whether each of these is a part of a title; letters scattered over it are no match."""
    return all(word in title.lower() for word in words)


def _home(command: Command) -> str:
    """Returns the first tab that a command works in."""
    return next(tab for tab in tabs.NAMES if tab in command.tabs)


def still_cursor(palette: Screen[object], text: str = "") -> None:
    """Stops the cursor of a palette's line from blinking, says what is found there, and looks a text up."""
    for line in palette.query(Input):
        line.cursor_blink = False
        line.placeholder = "table, kernel, run, command"
        line.value = text


class Parts(Protocol):
    """The parts of the application that the palette uses."""

    session: Session
    shell: Shell
    keyboard: Keyboard
    runs: RunLoader
    navigation: Navigation


class EverythingProvider(Provider):
    """Offers commands and destinations."""

    @property
    def _parts(self) -> Parts:
        return cast("Parts", self.app)

    def _own(self, text: str) -> str:
        return self._parts.shell.own(text)

    def _commands(self) -> list[Command]:
        return [command for command in commands.in_tab(self._parts.shell.tab) if command.palette]

    def _elsewhere(self) -> list[Command]:
        """Returns the commands that only work in other tabs."""
        tab = self._parts.shell.tab
        here = {command.title for command in commands.in_tab(tab)}
        return [
            command
            for command in commands.COMMANDS
            if command.palette and command.tabs and tab not in command.tabs and command.title not in here
        ]

    def _recent(self) -> list[tuple[Path, str]]:
        """Returns recent recordings that still exist and are not open: path and name."""
        from tracetui.app.settings.recent import recents

        now = {entry.origin.absolute() for entry in self._parts.session.open.values()}
        return [
            (recent.path, str(recent.path))
            for recent in recents()
            if recent.path.absolute() not in now and recent.is_there
        ]

    def _do(self, command: Command) -> None:
        """Runs a command in its tab, after the palette has closed."""
        self.app.call_later(self._run, command)

    async def _run(self, command: Command) -> None:
        if command.where != "app" and command.keys and self._parts.shell.awaits_rows:
            self._parts.keyboard.press(command.keys.split(",")[0])  # which waits, or opens its line at once
            return
        target: DOMNode | None = self.app
        if command.where in ("view", "counted", "diff", "sweep", "timeline"):
            target = self._parts.shell.view
        elif command.where in ("table", "tree", "overview", "lanes"):
            target = self.app.focused
        if target is not None:
            await self.app.run_action(command.action, default_namespace=target)

    async def discover(self) -> Hits:
        """Offers all commands before anything is typed."""
        for command in self._commands():
            label = f"{command.title}  [{command.shown}]" if command.shown else command.title
            yield DiscoveryHit(self._own(label).replace("[", "\\["), partial(self._do, command), text=label)

    async def search(self, query: str) -> Hits:
        """Finds commands by fuzzy match, and kernels and modules whose short or full name contains all words."""
        matcher, parts, words = self.matcher(query), self._parts, query.lower().split()
        for command in self._commands():
            label = self._own(f"{command.title}  ({command.shown})" if command.shown else command.title)
            if has_words(label, words):
                yield Hit(matcher.match(label), matcher.highlight(label), partial(self._do, command), text=label)
        for command in self._elsewhere():
            title = self._own(f"{command.title}  (in {tabs.TITLES[_home(command)]})")
            score = matcher.match(title) / 2  # commands that work in this tab go first
            if has_words(title, words):
                yield Hit(score, matcher.highlight(title), partial(parts.navigation.to_tab, _home(command)), text=title)
        for place in PLACES if words else ():
            if place.has(words):
                title = " > ".join(filter(None, (tabs.TITLES[place.tab], place.table)))
                go = partial(parts.navigation.open_rows, place.tab, place.table, "")
                # of what fits a table's names nothing else is looked for more often
                yield Hit(ALL_WORDS + matcher.match(title), _highlighted(matcher, title), go, text=title)
        for path, label in self._recent():
            if all(word in label.lower() for word in words):
                shown = printable(f"open  {label}", ascii=parts.session.ascii)
                score = max(matcher.match(shown), 0.1)
                yield Hit(score, _highlighted(matcher, shown), partial(parts.runs.open_run, "a", (path,)), text=shown)
        found = 0
        for tab, noun, name, label in parts.navigation.places():
            folded = f"{label}\n{name}".lower()
            if all(word in folded for word in words):
                shown = printable(f"{noun}  {label}", ascii=parts.session.ascii)
                score = max(matcher.match(shown), 0.1)
                yield Hit(score, _highlighted(matcher, shown), partial(parts.navigation.go_to, tab, name), text=shown)
                found += 1
                if found >= LIMIT:
                    return
