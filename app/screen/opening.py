"""Opens runs: reads them, and makes them A (in view) or B (compared with A)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tracetui.app import tabs
from tracetui.app.keys import commands
from tracetui.app.session.loading import Loader, explain
from tracetui.app.session.open_runs import OpenRun, chooser, find_run, no_such_run, run_with_steps
from tracetui.app.text.exit_codes import DONE, UNREADABLE, UsageError
from tracetui.app.text.fitting import fit, printable
from tracetui.app.text.paths import from_home
from tracetui.app.text.tool_words import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.analysis.findings.config import Config
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session import jobs
    from tracetui.app.session.session import Session, Side
    from tracetui.parsers import Run


FILE_WIDTH = 40
"""Columns of the file that silenced findings were written to, in a message that 80 columns have room for."""


class Watcher(Protocol):
    """Is notified of runs as they are opened and closed."""

    def leaving(self) -> None:
        """Called before another run is shown or compared."""

    def was_opened(self, entry: OpenRun) -> None:
        """Called when a run was read, before it is shown."""

    def was_closed(self) -> None:
        """Called when runs may have been released from memory."""

    def could_not_open(self, letter: str) -> None:
        """Called when a run could not be read; the loader holds the reason."""

    def has_others(self, title: str) -> None:
        """Called when the first run is one of several in its folder and none was chosen."""

    def exit(self) -> None:
        """Called when the command line asks for something that does not exist; `usage` says what."""


class RunLoader:
    """Puts runs into the session, and decides which of them are A and B."""

    def __init__(
        self,
        session: Session,
        loader: Loader,
        shell: Shell,
        watcher: Watcher,
        *,
        wanted: str = "",
        problems: Sequence[str] = (),
    ) -> None:
        self.session, self.loader, self.watcher = session, loader, watcher
        self._shell = shell
        self._problems = problems
        """Problems of the settings, one line each, that are known when a run is read."""
        self.run_wanted = wanted
        """Which run to view first, by letter or name, if a folder holds several or several paths were given."""
        self.run_left = ""
        """Which run of the folder was last in view."""
        self.usage = ""
        """What was wrong with the command line, if only reading could tell."""
        self.exit_code = DONE
        """The program's exit code, as far as opening runs decides it."""
        self._ranks: dict[str, int] = {}
        """The rank that is being read of a run that is open."""
        self._later: Sequence[str] = ()
        """Runs of the command line that are read after A."""

    def start(self) -> None:
        """Starts reading the requested runs."""
        letters = list(self.session.open)
        if not letters:
            return
        if len(letters) > 1 and self.run_wanted:
            entries = list(self.session.open.values())
            known = [(entry.letter, entry.name) for entry in entries]
            at = find_run(known, self.run_wanted)
            if at is None:
                self._refuse(no_such_run(self.run_wanted, known, "the command"))
                return
            letters.insert(0, letters.pop(at))
            self.run_wanted = ""
        for side, letter in zip(("a", "b"), letters, strict=False):
            self._read("a" if side == "a" else "b", letter)
        self._later = letters[2:]

    # --- reading

    def open_run(self, side: Side, paths: tuple[Path, ...]) -> None:
        """Makes the run of these paths A or B; reads it in a thread if needed."""
        self.look_at(self.entry_of(paths).letter, side)

    def entry_of(self, paths: tuple[Path, ...]) -> OpenRun:
        """Returns the run of these paths in the list, where it is added unless it is there."""
        entry = next((entry for entry in self.session.open.values() if entry.is_of(paths)), None)
        return entry or self.session.add(paths)

    def look_at(self, letter: str, side: Side = "a") -> None:
        """Makes a run of the list A (in view) or B (compared with A); reads it if needed."""
        entry = self.session.open[letter]
        if side == "a" and self.session.sides.get("a") not in (None, letter):
            self.watcher.leaving()
        if entry.run is None:
            self._read(side, letter)
        elif side == "b" and self.session.sides.get("a") == letter:
            if self.loader.wanted.get("a", letter) in self.loader.lines:  # it will soon be out of view
                self.loader.wanted["b"] = letter
            else:
                self._shell.say(f"{entry.name} is in view: choose another to compare it with")
        else:
            self.loader.wanted[side] = letter
            self._take(side, letter)
        self._shell.refresh_lines()

    def _read(self, side: Side | None, letter: str) -> None:
        if side is not None:
            self.loader.wanted[side] = letter
            # a run that was requested as both becomes the one requested last
            wanted = self.loader.wanted
            self.loader.wanted = {of: which for of, which in wanted.items() if of == side or which != letter}
        if letter not in self.loader.lines:
            paths = self.session.open[letter].paths
            self.loader.start(letter, paths, self._chooser(letter), rank=self.session.rank)
        self._shell.refresh_lines()
        if side == "b" and "a" in self.session.runs:
            self._shell.reload_views("b")

    def _chooser(self, letter: str) -> Callable[[Sequence[str]], int] | None:
        """Returns the function that picks the requested run of a folder; None to take the first."""
        wanted, known = self.run_wanted, self.run_left
        if not (wanted or known) or letter != self.loader.wanted.get("a"):
            return None
        if wanted:
            return chooser(wanted, str(self.session.open[letter].origin))
        return lambda names: names.index(known) if known in names else 0

    def read_rank(self, rank: int) -> None:
        """Reads a rank of the run in view that was not read when the run was opened, and shows it."""
        letter = self.session.sides["a"]
        self._ranks[letter] = rank
        self.loader.start(letter, self.session.open[letter].paths, rank=rank, more_of=self.session.runs["a"])
        self._shell.say(f"Reading rank {rank} …")
        self._shell.refresh_lines()

    def _rank_was_read(self, letter: str, rank: int, event: jobs.JobDone[Run], *, cancelled: bool) -> None:
        entry = self.session.open[letter]
        if event.result is None or rank in event.result.unread:
            self._shell.say(explain(event.error, entry.paths, cancelled=cancelled)[0])
            return
        self.session.forget(entry.number)
        entry.hold(event.result, entry.config)
        if self.session.sides.get("a") == letter:
            self.session.rank = rank
            self._shell.forget_range()  # the marked range was on the other recording's clock
            self._shell.reload_views()
            self._shell.say(f"Rank {rank}")

    def finish(self, event: jobs.JobDone[Run]) -> None:
        """Handles the end of reading a run, successful or not; ignores other jobs."""
        ended = self.loader.finish(event.key)
        if ended is None:
            return
        letter, cancelled = ended
        if letter not in self.session.open:
            return
        if (rank := self._ranks.pop(letter, None)) is not None:
            self._rank_was_read(letter, rank, event, cancelled=cancelled)
        elif event.result is not None and event.result.traces:
            self._opened(letter, event.result, cancelled=cancelled)
        elif isinstance(event.error, UsageError):
            self._refuse(str(event.error))
        else:
            self._failed(letter, event.error, cancelled=cancelled)
        self._shell.refresh_lines()

    def _refuse(self, line: str) -> None:
        """Ends the program because the command line asks for a run that does not exist."""
        self.usage = line
        self.watcher.exit()

    def _opened(self, letter: str, run: Run, *, cancelled: bool) -> None:
        first = "a" not in self.session.runs
        folder = self.session.open[letter].paths
        letter = self._list_folder(letter, run)
        entry = self.session.open[letter]
        run, config = _configured(run, self._problems)
        try:
            run = run_with_steps(run, self.session.scope.steps_by)
        except UsageError as problem:
            if first:
                self._refuse(str(problem))
                return
            self._shell.say(str(problem))
        self.session.forget(entry.number)
        entry.hold(run, config)
        side = next((side for side, wanted in self.loader.wanted.items() if wanted == letter), None)
        if side is None and first and self.loader.wanted.get("a", "") in self.loader.failures:
            side = "a"  # the run that was requested as A can't be read; this one takes its place
        if run.warnings:
            more = f" (and {len(run.warnings) - 1} more: {commands.key('app.notes')})" if len(run.warnings) > 1 else ""
            self._shell.say(run.warnings[0] + more)
        if side == "a":
            self._settle(run)
            if first:
                kind = run.main.info.kind
                summarised = run.summaries_in is not None
                begin = "ranks" if summarised else "sweep" if _is_sweep(folder) else WORDS[kind].first_tab
                self._shell.begin_with(begin)
        if cancelled and any(trace.source.partial for trace in run.traces):
            self._shell.say("Stopped: what was read so far is shown")
        self.watcher.was_opened(entry)
        if side is not None:
            self._take(side, letter)
        asked = bool(self.run_wanted or self.run_left)
        if side == "a":
            self.run_wanted = self.run_left = ""
        if side == "a" and first and run.others and self._shell.tab != "sweep" and not asked:
            self.watcher.has_others(f" {len(run.others) + 1} runs in {printable(str(entry.origin))}: which one?")
        self._read_later()

    def _read_later(self) -> None:
        later, self._later = self._later, ()
        for letter in later:
            if letter in self.session.open:
                self._read(None, letter)

    def _list_folder(self, letter: str, run: Run) -> str:
        """Adds the other runs of the folder to the list, in the folder's order; returns this run's letter."""
        entry = self.session.open[letter]
        if not run.others:
            return letter
        files = run.files
        others, place = run.others, run.place
        if _is_sweep(entry.paths):  # in the order of its variables; other folders from the newest run on
            others = tuple(sorted(others, key=lambda other: _by_variables(other[1])))
            place = sum(_by_variables(paths) < _by_variables(files) for _, paths in others)
        before, after = others[:place], others[place:]
        if len(self.session.open) == 1 and before:  # the first letters go to the runs of the folder
            for name, paths in before[:1]:
                entry.paths, entry.label = paths, name
            for name, paths in before[1:]:
                self.session.add(paths, origin=entry.origin, label=name)
            mine = self.session.add(files, origin=entry.origin)
            asked = self.loader.wanted
            self.loader.wanted = {side: mine.letter if wanted == letter else wanted for side, wanted in asked.items()}
        else:
            mine, after = entry, others
            entry.paths = files
        for name, paths in after:
            if not any(set(paths) == set(known.paths) for known in self.session.open.values()):
                self.session.add(paths, origin=entry.origin, label=name)
        return mine.letter

    def _settle(self, run: Run) -> None:
        """Resets a requested rank or tool that this run does not have."""
        session = self.session
        if session.rank is not None and session.rank not in run.ranks:
            known = ", ".join(map(str, run.ranks)) or "none"
            self._shell.say(f"No rank {session.rank} in this run (ranks: {known})")
            session.rank = None
        if session.kind is not None and not run.of_kind(session.kind):
            self._shell.say(f"Nothing from {WORDS[session.kind].label} in this run")
            session.kind = None

    def _failed(self, letter: str, error: Exception | None, *, cancelled: bool) -> None:
        line, bug = explain(error, self.session.open[letter].paths, cancelled=cancelled)
        if bug and error is not None:
            self._shell.log_error(error)
        self.loader.failures[letter] = line
        if "a" in self.session.runs:
            self._shell.say(line)
            if letter == self.loader.wanted.get("b"):
                self._shell.reload_views("b")
        elif letter == self.loader.wanted.get("a"):
            self.exit_code = UNREADABLE
            other = next((entry for entry in self.session.open.values() if entry.run is not None), None)
            if other is not None:
                self.loader.wanted = {"a": other.letter}
                self._take("a", other.letter)
                self._shell.say(line)
        self._read_later()
        self.watcher.could_not_open(letter)

    # --- findings that are silenced

    def silence(self, names: Sequence[str], reason: str) -> None:
        """Silences findings by their keys or rules, or with no reason restores them; says where that was written."""
        for name in names:
            problem, file = self.write_silenced(name, reason)
            written = fit(file, FILE_WIDTH, ascii=self.session.ascii, keep_end=True)
            done = f"{'Silenced' if reason else 'Restored'} {name} in {written}"
            self._shell.say(problem or f"{done} ({commands.key('app.undo')}: undo)")
        self._shell.reload_views()

    def write_silenced(self, name: str, reason: str) -> tuple[str, str]:
        """Writes that a finding or a rule is silenced or, with no reason, restored, and takes that over for all runs.

        Returns:
            Why it could not be written, and where it was written; one of the two is empty.
        """
        from tracetui.analysis.findings import config
        from tracetui.parsers.errors import TraceError

        here = self.session.runs["a"].path
        try:
            file = config.silence(name, reason, here, Path.cwd())
        except TraceError as problem:
            return str(problem), ""
        except OSError as problem:
            return f"{problem.filename}: {(problem.strerror or str(problem)).lower()}", ""
        for entry in self.session.open.values():
            entry.config = None if entry.run is None else config.load(entry.run.path, Path.cwd())
        self.session.configure(config.load(here, Path.cwd()))
        return "", from_home(str(file))

    # --- A and B

    def _take(self, side: Side, letter: str) -> None:
        """Shows a run that was read, as A or B."""
        before = dict(self.session.sides)
        self.session.take(side, letter)
        waiting = self.session.open.get(self.loader.wanted.get("b", ""))
        if side == "a" and waiting is not None and waiting.run is not None and waiting.letter != letter:
            self.session.take("b", waiting.letter)
        self.session.spare()
        self.watcher.was_closed()
        # a run that is still being read, or failed, remains the requested one
        open_ends = self.loader.lines.keys() | self.loader.failures.keys()
        waited_for = {of: one for of, one in self.loader.wanted.items() if one in open_ends}
        self.loader.wanted = {**self.session.sides, **waited_for}
        moved = self.session.sides.get("a") != before.get("a")
        self._shell.reload_views("a" if side == "a" or moved else "b")
        if "a" in self.session.runs:
            self._shell.show_tab(self._shell.tab)

    def swap(self) -> None:
        """Exchanges A and B."""
        if len(self.session.runs) < 2:
            self._shell.say(self._no_second())
            return
        self.session.swap()
        self.loader.wanted = dict(self.session.sides)
        self._shell.reload_views()
        self._shell.refresh_lines()

    def _no_second(self) -> str:
        """Says how to get a second run, and where the key that swaps two runs compares ranks."""
        swaps, opens = commands.key("diff.swap"), commands.key("run.open")
        if "a" not in self.session.runs or len(self.session.runs["a"].ranks) < 2:
            return f"There is no second run: {opens} opens one, or start with `tracetui open A B`"
        ranks = tabs.BY_NAME["ranks"]
        beside = f"in {ranks.title} ({commands.key('tab.ranks')}) it compares ranks"
        return f"{swaps} swaps two runs: {opens} opens a second one; {beside}"

    def close(self, letter: str) -> bool:
        """Removes a run from the list, unless it is in view; returns whether it was removed."""
        if self.session.sides.get("a") == letter:
            self._shell.say("This run is in view: view another one before closing it")
            return False
        compared = self.session.sides.get("b") == letter
        self.loader.give_up(letter)
        self.loader.failures.pop(letter, None)
        self.loader.wanted = {side: wanted for side, wanted in self.loader.wanted.items() if wanted != letter}
        self.session.close(letter)
        self.watcher.was_closed()
        if compared:
            self._shell.reload_views("b")
        self._shell.refresh_lines()
        return True


def _configured(run: Run, problems: Sequence[str]) -> tuple[Run, Config]:
    """The run, with problems of these and of other settings as warnings, and the user's thresholds for it."""
    from tracetui.analysis.findings import config

    found = config.load(run.path, Path.cwd())
    said = tuple(dict.fromkeys(map(from_home, (*problems, *found.problems))))
    return (replace(run, warnings=(*run.warnings, *said)) if said else run), found


def _is_sweep(paths: tuple[Path, ...]) -> bool:
    """Returns whether a folder with a sweep's index was opened."""
    from tracetui.parsers.runs.run import SWEEP_INDEX

    return any((path / SWEEP_INDEX).is_file() for path in paths)


def _by_variables(paths: Sequence[Path]) -> list[tuple[float, str]]:
    """Returns a key that sorts a sweep's runs: by the names of their folders, numbers in them by size."""
    parts = re.split(r"(\d+(?:\.\d+)?)", str(paths[0]))
    return [(float(part), "") if number % 2 else (-1.0, part) for number, part in enumerate(parts)]
