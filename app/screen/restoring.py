"""Keeps which recordings were opened and the last position in each, from one start to the next."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Meta, ValidationError, convert

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.settings import state
from tracetui.app.text.fitting import fit, printable
from tracetui.app.text.paths import is_there
from tracetui.app.text.times import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

    from tracetui.app.screen.history import Navigation
    from tracetui.app.screen.opening import RunLoader
    from tracetui.app.screen.preferences import Preferences
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.open_runs import OpenRun


FILE = "left"
KEPT = 100
"""How many runs are remembered."""
LONGEST = 1000
"""The maximum length of a filter."""


Moment: TypeAlias = Annotated[int, Meta(ge=-LATEST, le=LATEST)]


@dataclass(frozen=True)
class Left:
    """The last position in a run."""

    tab: str = "overview"
    filter: str = ""
    sorts: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Sort column and whether the largest comes first, by page id."""
    window: tuple[Moment, Moment] | None = None
    """The marked range, ns on the trace's clock."""
    words: str = ""
    """The text for the range."""
    run: str = ""
    """Which run of the folder was in view."""
    other: Path | None = None
    """The run that it was compared with."""


def load(origin: Path) -> Left | None:
    """Loads the last position for a path; None if it is unknown, or the files have changed since."""
    runs = state.read(FILE).get("runs")
    entry = runs.get(_key(origin)) if isinstance(runs, dict) else None
    if not isinstance(entry, dict) or not _unchanged(entry.get("files")):
        return None
    try:
        left = convert(entry, Left, dec_hook=lambda _, value: Path(value))
    except ValidationError:
        return None
    known, window = left.tab in tabs.TITLES, left.window
    left = left if known else replace(left, tab=Left.tab)
    return left if window is None or window[0] < window[1] else replace(left, window=None)


def store(origin: Path, left: Left, files: Iterable[Path], *, now: float | None = None) -> None:
    """Stores the last position in a run; does nothing if that can't be written."""
    runs = state.read(FILE).get("runs")
    entries = {key: entry for key, entry in runs.items() if isinstance(entry, dict)} if isinstance(runs, dict) else {}
    entries[_key(origin)] = {
        "files": [_seal(file) for file in files],
        "saved": round(time.time() if now is None else now, 3),
        "tab": left.tab,
        "filter": left.filter[:LONGEST],
        "sorts": left.sorts,
        "window": left.window,
        "words": left.words,
        "run": left.run,
        "other": None if left.other is None else _key(left.other),
    }
    newest = sorted(entries, key=lambda key: -_number(entries[key].get("saved")))[:KEPT]
    state.write(FILE, {"version": 1, "runs": {key: entries[key] for key in newest}})


def forget(origin: Path) -> None:
    """Removes the last position for a path."""
    runs = state.read(FILE).get("runs")
    if isinstance(runs, dict) and runs.pop(_key(origin), None) is not None:
        state.write(FILE, {"version": 1, "runs": runs})


def _key(origin: Path) -> str:
    return os.path.abspath(origin)  # noqa: PTH100  a link keeps the name that the user gave


def _seal(file: Path) -> list[object]:
    """Returns values that change when a file changes."""
    try:
        stat = file.stat()
    except OSError:
        return [_key(file), -1, -1]
    return [_key(file), stat.st_size, stat.st_mtime_ns]


def _unchanged(files: object) -> bool:
    if not isinstance(files, list) or not files:
        return False
    seals = [entry for entry in files if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str)]
    return len(seals) == len(files) and all("\0" not in entry[0] and _seal(Path(entry[0])) == entry for entry in seals)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and abs(value) < LATEST else 0.0


OTHER_WIDTH = 20
"""Columns for the name of the offered run."""
QUERY = "query"
"""The tab that is not gone back to: its query is not kept."""
SAVED_AFTER_SECONDS = 1.0
"""How long the user must stay in a tab before the position is saved."""


class Restorer:
    """Saves the last position in each run, and restores it."""

    def __init__(
        self,
        runs: RunLoader,
        shell: Shell,
        navigation: Navigation,
        preferences: Preferences,
        set_timer: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._runs, self._shell, self._navigation = runs, shell, navigation
        self._session = runs.session
        self._preferences, self._set_timer = preferences, set_timer
        self._saving: Timer | None = None
        self._left: Left | None = None

    def recall(self, origin: Path, *, tab: bool, filter: bool) -> None:
        """Restores the last position for a path, where the command line does not set it."""
        self._left = load(origin) if self._preferences.keeps_state else None
        if self._left is None:
            return
        if tab:
            self._shell.tab, self._shell.default_tab = self._left.tab, False
        if filter:
            self._session.filter = self._left.filter
        self._session.sorts = dict(self._left.sorts)
        if not self._runs.run_wanted:
            self._runs.run_left = self._left.run

    def forget_recalled(self) -> None:
        """Drops the recalled position, because its run can't be opened."""
        self._session.sorts, self._left = {}, None

    def was_opened(self, entry: OpenRun) -> None:
        """Remembers an opened run; the first run continues at its last position."""
        run = entry.run
        assert run is not None
        if self._preferences.keeps_state:
            from tracetui.app.settings import recent

            kinds = [trace.info.kind for trace in run.traces]
            recent.remember(entry.origin, kinds, sum(trace.source.bytes for trace in run.traces))
        known, self._left = self._left, None
        if known is None or entry.letter != self._runs.loader.wanted.get("a"):
            self._left = known
            return
        restored = self._shell.tab == known.tab != self._shell.usual_tab  # another one was chosen during the reading
        again = [tabs.TITLES[self._shell.tab]] if restored else []
        if self._session.filter and self._session.filter == known.filter:
            again.append(f"/ {printable(known.filter)}")
        if known.sorts:
            again.append("order")
        here = self._session.rank is None and self._session.kind is None and known.run in ("", self._name_of(entry))
        if known.window is not None and here:
            entry.window, entry.window_words = known.window, known.words
            again.append(known.words)
        other = self._offer(known.other)
        if again or other:
            line = f"As left: {', '.join(again)} · {commands.key('run.afresh')} starts over" if again else ""
            self._shell.say(self._shell.own(" · ".join(part for part in (line, other) if part)))

    def _offer(self, path: Path | None) -> str:
        """Adds the run that this one was last compared with to the list, unread; returns a message."""
        if path is None or not is_there(path):
            return ""
        entry = self._runs.entry_of((path,))
        if entry.run is not None:
            return ""
        entry.remark = "compared last time"
        return f"{commands.key('run.open')} Enter: again with {fit(printable(entry.name), OTHER_WIDTH)}"

    def _name_of(self, entry: OpenRun) -> str:
        """Returns the run's name in its folder; empty if the whole path is one run."""
        several = sum(other.origin == entry.origin for other in self._session.open.values()) > 1
        return (entry.label or entry.name) if several else ""

    def save_soon(self) -> None:
        """Saves the position soon after a tab came into view, unless another tab follows."""
        if self._preferences.keeps_state and "a" in self._session.runs:
            if self._saving is not None:
                self._saving.stop()
            self._saving = self._set_timer(SAVED_AFTER_SECONDS, self.save_place)

    def save_for_good(self) -> None:
        """Saves the position for the last time, when the program ends."""
        if self._saving is not None:
            self._saving.stop()
        self.save_place()

    def save_place(self) -> None:
        """Saves the position in the run in view, unless views are being removed: it includes their sort order."""
        session = self._session
        if not self._preferences.keeps_state or self._shell.closing or "a" not in session.runs:
            return
        entry, run = session.open[session.sides["a"]], session.runs["a"]
        other = session.open[session.sides["b"]] if "b" in session.runs else None
        if other is None:
            other = next((known for known in session.open.values() if known.remark), None)
        where = Left(
            tab=self._shell.tab if self._shell.tab != QUERY else self._shell.usual_tab,
            filter=self._navigation.usual_filter,
            sorts=self._navigation.sorts,
            window=session.scope.window,
            words=session.range_words,
            run=self._name_of(entry),
            other=None if other is None else self._path_of(other),
        )
        store(entry.origin, where, [trace.source.path for trace in run.traces])

    def _path_of(self, entry: OpenRun) -> Path:
        """Returns a path that opens the run again."""
        if entry.run is not None and self._name_of(entry):
            return entry.run.path
        return entry.paths[0] if self._name_of(entry) else entry.origin

    def begin_afresh(self) -> None:
        """Resets the run to how it looks when it is first opened."""
        if "a" not in self._session.runs:
            return
        session = self._session
        self._navigation.note("start over")
        if self._preferences.keeps_state:
            forget(session.open[session.sides["a"]].origin)
        session.filter, session.sorts = "", {}
        self._shell.forget_range()
        self._navigation.forget()
        for view in self._shell.views():
            view.forget_pages()
        self._shell.reload_views()
        self._shell.show_tab(self._shell.usual_tab)
        self._shell.say(f"Started over: no filter, range or order of your own ({commands.key('app.undo')} undoes it)")
