"""The user's preferences for the screen: theme, keys, names and columns; keeps what the user chooses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tracetui.app.keys import commands
from tracetui.app.settings import schema as settings
from tracetui.app.settings import theme as themes
from tracetui.app.text.exit_codes import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tracetui.analysis.tables.table import Field
    from tracetui.app.session.session import Session
    from tracetui.app.settings.schema import Settings
    from tracetui.app.text.names import Names


class Preferences:
    """The settings in force, and the choices made on the screen."""

    def __init__(
        self, preferred: Settings, session: Session, *, color: str, low_bandwidth: bool, keeps_state: bool
    ) -> None:
        self._settings, self._session, self._color = preferred, session, color
        self.low_bandwidth = low_bandwidth
        """Few colours and half pages, because the connection is slow."""
        self.keeps_state = keeps_state
        """Whether choices and the last position are kept for the next start."""
        session.names = cast("Names", preferred.names)
        for page, (hidden, pinned) in preferred.chosen_columns.items():
            session.hidden[page], session.pinned[page] = hidden, pinned
        remapped = commands.use_keys(preferred.keys)
        self.keymap: Mapping[str, str] = remapped.changed
        """For Textual: keys by command id, for commands whose keys are not the default."""
        self.problems = [*preferred.problems, *self._of_keys(remapped.problems)]
        """Settings that could not be used, one line each."""

    def _of_keys(self, problems: Sequence[str]) -> list[str]:
        """Returns the lines about keys, each with the file that it is about."""
        lines = []
        for line in problems:
            name = line.partition(":")[0]
            origin = self._settings.origins.get(name) or next(
                (origin for key, origin in self._settings.origins.items() if key.startswith("keys.")), ""
            )
            lines.append(f"{origin}: {line}" if origin else line)
        return lines

    # --- choices made on the screen are kept

    def keep(self, key: str, value: object) -> None:
        """Keeps a choice for the next start."""
        if self.keeps_state:
            settings.keep(self._settings, key, value)

    def keep_columns(self, page: str, columns: Sequence[Field]) -> None:
        """Keeps which columns of a page are shown."""
        if self.keeps_state and page in self._session.hidden:
            choice = self._session.hidden[page], self._session.pinned.get(page, frozenset())
            usual = frozenset(column.name for column in columns if column.hidden), frozenset[str]()
            as_it_is = choice == usual and page not in self._settings.columns
            settings.keep_columns(self._settings, page, None if as_it_is else choice)

    def configure_columns(self, page: str, columns: Sequence[Field]) -> str:
        """Takes over which columns of a page the settings show and hide, unless others were chosen on the screen.

        Args:
            page: id of the page.
            columns: all columns of the page.

        Returns:
            A line about a column that the page lacks; empty if it has them all.
        """
        wanted = self._settings.columns.get(page)
        if wanted is None or page in self._session.hidden:
            return ""
        shown, unknown = named_columns(wanted.show, columns)
        hidden, unknown_too = named_columns(wanted.hide, columns)
        first = {columns[0].name} if columns else set()
        default = {column.name for column in columns if column.hidden}
        self._session.hidden[page] = frozenset(((default | hidden) - shown) - first)
        self._session.pinned[page] = frozenset(shown)
        if unknown or unknown_too:
            known = ", ".join(column.name for column in columns)
            origin = self._settings.origins.get(f"columns.{page}", "settings")
            line = f"{origin}: columns.{page} has no {[*unknown, *unknown_too][0]}; there are {known}"
            self.problems.append(line)
            return line
        return ""

    def in_force(self, key: str) -> str:
        """Returns a setting's value, and where it comes from."""
        return f"{key} = {json.dumps(self._settings.value(key))} ({self._settings.origins.get(key, 'default')})"

    # --- the theme

    @property
    def usual_theme(self) -> str:
        """Returns the theme of the settings, or a replacement if there are too few colours."""
        return self._settled(self._settings.theme)

    def _settled(self, name: str) -> str:
        return themes.theme_name(name, self._color, low_bandwidth=self.low_bandwidth)

    def choose_theme(self, name: str) -> tuple[str, str]:
        """Keeps a theme; returns the one that this terminal has the colours for, and a message."""
        settled = self._settled(name)
        self.keep("theme", name)
        if settled == name:
            return settled, f"Theme: {name}"
        return settled, f"Theme: {settled}; {name} needs more colours than there are (--color)"

    def theme_after(self, theme: str) -> str:
        """Returns the next theme that this terminal has the colours for."""
        known = [name for name in themes.THEMES if themes.theme_name(name, self._color, low_bandwidth=False) == name]
        return known[(known.index(theme) + 1) % len(known)] if theme in known else known[0]

    def switch_bandwidth(self) -> tuple[str | None, str]:
        """Switches low bandwidth on or off.

        Returns:
            The theme for it, if the settings leave that open, and a message.
        """
        self.low_bandwidth = not self.low_bandwidth
        self.keep("low_bandwidth", self.low_bandwidth)
        words = "fewer colours, tables scroll by half a page" if self.low_bandwidth else "all colours"
        theme = self.usual_theme if self._settings.theme == "auto" else None
        return theme, f"Low bandwidth {'on' if self.low_bandwidth else 'off'}: {words}"


def preferred_tab(preferred: Settings) -> tuple[str | None, Settings]:
    """Returns the tab of the settings; an unknown name is added to their problems."""
    if not preferred.tab:
        return None, preferred
    try:
        return commands.find_tab(preferred.tab), preferred
    except UsageError as problem:
        line = f"{preferred.origins.get('tab', 'settings')}: {problem}"
        return None, replace(preferred, tab="", problems=(*preferred.problems, line))


def named_columns(names: Sequence[str], columns: Sequence[Field]) -> tuple[set[str], list[str]]:
    """Finds columns by name, title or label, ignoring case; returns them and the names not found."""
    known = {word.lower(): column.name for column in columns for word in (column.title, column.label, column.name)}
    found = {known[name.lower()] for name in names if name.lower() in known}
    return found, [name for name in names if name.lower() not in known]
