"""What of the screen a person can have otherwise: theme, keys, names, columns; and keeping what they choose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from textual.app import App

from tracetui.app import commands, settings
from tracetui.app import theme as themes
from tracetui.app.exit_codes import UsageError
from tracetui.app.leaving import Leaving
from tracetui.app.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.app.columns import Column
    from tracetui.app.session import Names, Session

TABLE_PARTS = ("view", "counted", "table", "tree")
NEED_ROWS = ("Table", "Tree", "Move", "Copy and save")
"""Groups of commands that are about the rows in view."""


class Preferences(Leaving):
    """The app as far as it can be set."""

    session: Session
    tab: str
    low_bandwidth = False
    """Few colours, half pages: each byte counts."""
    settings = Settings()
    keeps_state = False
    """Whether what is chosen is kept for the next start."""

    def prefer(self, preferred: Settings, *, color: str, low_bandwidth: bool) -> None:
        """Takes over what a person prefers, before the first paint.

        Args:
            preferred: what holds of the settings.
            color: how many colours there are, settled with the environment.
            low_bandwidth: whether each byte counts.
        """
        self.settings = preferred
        self.low_bandwidth = low_bandwidth
        self._color = color
        for known in themes.ALL:
            self.register_theme(known)
        self._begin_with_theme(themes.theme_name(preferred.theme, color, low_bandwidth=low_bandwidth))
        self.session.names = cast("Names", preferred.names)
        for page, (hidden, pinned) in preferred.chosen_columns.items():
            self.session.hidden[page], self.session.pinned[page] = hidden, pinned
        remapped = commands.use_keys(preferred.keys)
        self.setting_problems = [*preferred.problems, *self._of_keys(remapped.problems)]
        """What of the settings could not be used, a line each."""
        self.update_keymap(dict(remapped.changed))

    def _begin_with_theme(self, name: str) -> None:
        """The theme of the first paint: set before the style sheet is read, lest it be read twice."""
        self.set_reactive(App.theme, name)
        dark = self.current_theme.dark
        for kind, holds in ((f"-theme-{name}", True), ("-dark-mode", dark), ("-light-mode", not dark)):
            self.set_class(holds, kind, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def _of_keys(self, problems: Sequence[str]) -> list[str]:
        """Lines about keys, with the file that each is about."""
        lines = []
        for line in problems:
            name = line.partition(":")[0]
            origin = self.settings.origins.get(name) or next(
                (origin for key, origin in self.settings.origins.items() if key.startswith("keys.")), ""
            )
            lines.append(f"{origin}: {line}" if origin else line)
        return lines

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Variables of the style sheet that a theme may leave out."""
        return themes.DEFAULTS

    def say(self, message: str) -> None:
        """Says something in the footer until the next key."""
        raise NotImplementedError

    # --- what is chosen on the screen is kept

    def keep(self, key: str, value: object) -> None:
        """Keeps a choice for the next start."""
        if self.keeps_state:
            settings.keep(self.settings, key, value)

    def keep_columns(self, page: str, columns: Sequence[Column]) -> None:
        """Keeps which columns of a page are shown.

        Args:
            page: id of the page.
            columns: those it has.
        """
        if self.keeps_state and page in self.session.hidden:
            choice = self.session.hidden[page], self.session.pinned.get(page, frozenset())
            usual = frozenset(column.name for column in columns if column.hidden), frozenset[str]()
            as_it_is = choice == usual and page not in self.settings.columns
            settings.keep_columns(self.settings, page, None if as_it_is else choice)

    def configure_columns(self, page: str, columns: Sequence[Column]) -> None:
        """Takes over which columns of a page the settings show and hide, unless others were chosen on the screen.

        Args:
            page: id of the page.
            columns: those it has.
        """
        wanted = self.settings.columns.get(page)
        if wanted is None or page in self.session.hidden:
            return
        shown, unknown = named_columns(wanted.show, columns)
        hidden, unknown_too = named_columns(wanted.hide, columns)
        first = {columns[0].name} if columns else set()
        default = {column.name for column in columns if column.hidden}
        self.session.hidden[page] = frozenset(((default | hidden) - shown) - first)
        self.session.pinned[page] = frozenset(shown)
        if unknown or unknown_too:
            known = ", ".join(column.name for column in columns)
            origin = self.settings.origins.get(f"columns.{page}", "settings")
            line = f"{origin}: columns.{page} has no {[*unknown, *unknown_too][0]}; there are {known}"
            self.setting_problems.append(line)
            self.say(line)

    # --- actions

    def action_theme(self, name: str) -> None:
        """Changes the theme."""
        settled = themes.theme_name(name, self._color, low_bandwidth=self.low_bandwidth)
        self.theme = settled
        self.keep("theme", name)
        self.say(
            f"Theme: {name}"
            if settled == name
            else f"Theme: {settled}; {name} needs more colours than there are (--color)"
        )

    def action_next_theme(self) -> None:
        """Goes on to the next theme that this terminal has the colours for."""
        known = [name for name in themes.THEMES if themes.theme_name(name, self._color, low_bandwidth=False) == name]
        self.action_theme(known[(known.index(self.theme) + 1) % len(known)] if self.theme in known else known[0])

    def action_low_bandwidth(self) -> None:
        """Sends less, or no longer."""
        self.low_bandwidth = not self.low_bandwidth
        if self.settings.theme == "auto":
            self.theme = themes.theme_name("auto", self._color, low_bandwidth=self.low_bandwidth)
        self.keep("low_bandwidth", self.low_bandwidth)
        for table in self.screen_stack[0].query("FrameTable"):
            table.jump = self.low_bandwidth  # type: ignore[attr-defined]
        words = "fewer colours, tables scroll by half pages" if self.low_bandwidth else "all colours"
        self.say(f"Low bandwidth {'on' if self.low_bandwidth else 'off'}: {words}")

    # --- keys that do nothing here

    @property
    def is_blank(self) -> bool:
        """Whether the view says why it has nothing to show."""
        return bool(self.screen_stack[0].query(f"#view-{self.tab}.-blank"))

    def elsewhere(self, key: str) -> str:
        """Why a key does nothing in this view; empty where it does something, or nothing anywhere."""
        meant = [command for command in commands.COMMANDS if key in command.keys.split(",") and command.where != "runs"]
        here = [command for command in meant if not command.tabs or self.tab in command.tabs]
        if here:
            rows = all(command.where in TABLE_PARTS and command.group in NEED_ROWS for command in here)
            return "There are no rows here" if rows and here[0].id != "table.next" and self.is_blank else ""
        if not meant:
            return ""
        tabs = [title for tab, title in commands.TITLES.items() if tab in meant[0].tabs]
        where = "in tables" if meant[0].tabs == commands.TABLES else f"in {', '.join(tabs[:4])}"
        title: Any = meant[0].title
        return f"{meant[0].shown.split()[0]} works {where}: {title[:1].lower()}{title[1:]}"


def preferred_tab(preferred: Settings) -> tuple[str | None, Settings]:
    """The tab that the settings ask for; a name that none has becomes a problem of theirs."""
    if not preferred.tab:
        return None, preferred
    try:
        return commands.find_tab(preferred.tab), preferred
    except UsageError as problem:
        line = f"{preferred.origins.get('tab', 'settings')}: {problem}"
        return None, replace(preferred, tab="", problems=(*preferred.problems, line))


def named_columns(names: Sequence[str], columns: Sequence[Column]) -> tuple[set[str], list[str]]:
    """The columns that are called so, by name, title or label in any case, and the names that none has."""
    known = {word.lower(): column.name for column in columns for word in (column.title, column.label, column.name)}
    found = {known[name.lower()] for name in names if name.lower() in known}
    return found, [name for name in names if name.lower() not in known]
