"""Opening runs: reading them, which of them is in view, which it is compared with, and the lists to choose from."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.app.keys import commands
from tracetui.app.screen.shell import Shell
from tracetui.app.session.loading import LoadProgress, explain
from tracetui.app.session.open_runs import chooser, find_run, no_such_run
from tracetui.app.text.exit_codes import UNREADABLE, UsageError
from tracetui.app.text.formats import printable
from tracetui.app.text.tools import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tracetui.analysis.findings.config import Config
    from tracetui.app.screen.dialogs import Choice
    from tracetui.app.session import jobs
    from tracetui.app.session.open_runs import OpenRun
    from tracetui.app.session.session import Side
    from tracetui.parsers import Run


class Opening(Shell):
    """The shell, and how runs get into it."""

    run_wanted = ""
    """Which run to look at first, by letter or name, where a folder holds several or several paths were given."""
    _run_left = ""
    """Which run of the folder was in view when it was left."""
    usage = ""
    """What was wrong with the command line, where only reading could tell."""

    def start(self) -> None:
        """Reads what was asked for."""
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

    _later: Sequence[str] = ()
    """Runs of the command line that are read once A is there."""

    # --- reading

    def open_run(self, side: Side, paths: tuple[Path, ...]) -> None:
        """Makes the run of these paths A or B; reads it in a thread, unless that was done."""
        entry = next((entry for entry in self.session.open.values() if entry.is_of(paths)), None)
        self.look_at((entry or self.session.add(paths)).letter, side)

    def look_at(self, letter: str, side: Side = "a") -> None:
        """Makes a run of the list A, the one in view, or B, the one it is compared with; reads it if need be."""
        entry = self.session.open[letter]
        if side == "a" and self.session.sides.get("a") not in (None, letter):
            self.leaving()
        if entry.run is None:
            self._read(side, letter)
        elif side == "b" and self.session.sides.get("a") == letter:
            if self.wanted.get("a", letter) in self.loader.lines:  # it will not be in view for long
                self.wanted["b"] = letter
            else:
                self.say(f"{entry.name} is in view: choose another to compare it with")
        else:
            self.wanted[side] = letter
            self._take(side, letter)
        self.refresh_lines()

    def _read(self, side: Side | None, letter: str) -> None:
        if side is not None:
            self.wanted[side] = letter
            # one that is read for both becomes what it was asked for last
            self.wanted = {of: which for of, which in self.wanted.items() if of == side or which != letter}
        if letter not in self.loader.lines:
            self.loader.start(letter, self.session.open[letter].paths, self._chooser(letter))
        self.refresh_lines()
        if side == "b" and "a" in self.session.runs:
            self.reload_views("b")

    def _chooser(self, letter: str) -> Callable[[Sequence[str]], int] | None:
        """What picks the run of a folder that was asked for; null where the first will do."""
        wanted, known = self.run_wanted, self._run_left
        if not (wanted or known) or letter != self.wanted.get("a"):
            return None
        if wanted:
            return chooser(wanted, str(self.session.open[letter].origin))
        return lambda names: names.index(known) if known in names else 0

    def on_load_progress(self, event: LoadProgress) -> None:
        """Shows stage, size and what is left, in a line."""
        self.loader.note(event)
        self.refresh_lines()

    def on_job_done(self, event: jobs.JobDone[Run]) -> None:
        """A run is read, or could not be."""
        ended = self.loader.finish(event.key)
        if ended is None:
            return
        letter, cancelled = ended
        if letter not in self.session.open:
            return
        if event.result is not None and event.result.traces:
            self._opened(letter, event.result, cancelled=cancelled)
        elif isinstance(event.error, UsageError):
            self._refuse(str(event.error))
        else:
            self._failed(letter, event.error, cancelled=cancelled)
        self.refresh_lines()

    def _refuse(self, line: str) -> None:
        """Leaves: the command line asks for what is not there."""
        self.usage = line
        self.exit()

    def _opened(self, letter: str, run: Run, *, cancelled: bool) -> None:
        first = "a" not in self.session.runs
        folder = self.session.open[letter].paths
        letter = self._list_folder(letter, run)
        entry = self.session.open[letter]
        run, config = _configured(run, self.setting_problems)
        self.session.forget(entry.number)
        entry.hold(run, config)
        side = next((side for side, wanted in self.wanted.items() if wanted == letter), None)
        if side is None and first and self.wanted.get("a", "") in self.loader.failures:
            side = "a"  # the run that was to be in view can't be read: this one can
        if run.warnings:
            more = f" (and {len(run.warnings) - 1} more: {commands.key('app.notes')})" if len(run.warnings) > 1 else ""
            self.say(run.warnings[0] + more)
        if side == "a":
            self._settle(run)
            if first and self._preferred_tab is None:
                self.usual_tab = "sweep" if _is_sweep(folder) else WORDS[run.main.info.kind].first_tab
            if first and self._default_tab:
                self.tab = self.usual_tab
        if cancelled and any(trace.source.partial for trace in run.traces):
            self.say("Stopped: what was read so far is shown")
        self.was_opened(entry)
        if side is not None:
            self._take(side, letter)
        asked = bool(self.run_wanted or self._run_left)
        if side == "a":
            self.run_wanted = self._run_left = ""
        if side == "a" and first and run.others and self.tab != "sweep" and not asked:
            self.action_runs(f" {len(run.others) + 1} runs in {printable(str(entry.origin))}: which one?")
        later, self._later = self._later, ()
        for other in later:
            if other in self.session.open:
                self._read(None, other)

    def was_opened(self, entry: OpenRun) -> None:
        """Called with each run that was read, before it is shown."""

    def _list_folder(self, letter: str, run: Run) -> str:
        """Puts the other runs of the folder into the list, each where the folder has it; the letter of this one."""
        entry = self.session.open[letter]
        if not run.others:
            return letter
        before, after = run.others[: run.place], run.others[run.place :]
        files = tuple(trace.source.path for trace in run.traces)
        if len(self.session.open) == 1 and before:  # the first letters are the folder's own
            for name, paths in before[:1]:
                entry.paths, entry.label = paths, name
            for name, paths in before[1:]:
                self.session.add(paths, origin=entry.origin, label=name)
            mine = self.session.add(files, origin=entry.origin)
            self.wanted = {side: mine.letter if wanted == letter else wanted for side, wanted in self.wanted.items()}
        else:
            mine, after = entry, run.others
            entry.paths = files
        for name, paths in after:
            if not any(set(paths) == set(known.paths) for known in self.session.open.values()):
                self.session.add(paths, origin=entry.origin, label=name)
        return mine.letter

    def _settle(self, run: Run) -> None:
        """Takes back a rank or a tool that was asked for and that this run has not."""
        session = self.session
        if session.rank is not None and session.rank not in run.ranks:
            known = ", ".join(map(str, run.ranks)) or "none"
            self.say(f"No rank {session.rank} in this run (ranks: {known})")
            session.rank = None
        if session.kind is not None and not run.of_kind(session.kind):
            self.say(f"Nothing from {WORDS[session.kind].label} in this run")
            session.kind = None

    def _failed(self, letter: str, error: Exception | None, *, cancelled: bool) -> None:
        line, bug = explain(error, self.session.open[letter].paths, cancelled=cancelled)
        if bug and error is not None:
            self.log_error(error)
        self.loader.failures[letter] = line
        if "a" in self.session.runs:
            self.say(line)
            if letter == self.wanted.get("b"):
                self.reload_views("b")
        elif letter == self.wanted.get("a"):
            self.exit_code = UNREADABLE
            other = next((entry for entry in self.session.open.values() if entry.run is not None), None)
            if other is not None:
                self.wanted = {"a": other.letter}
                self._take("a", other.letter)
                self.say(line)
        later, self._later = self._later, ()
        for waiting in later:
            self._read(None, waiting)

    # --- A and B

    def _take(self, side: Side, letter: str) -> None:
        """Shows a run that is read as A or B."""
        before = dict(self.session.sides)
        self.session.take(side, letter)
        waiting = self.session.open.get(self.wanted.get("b", ""))
        if side == "a" and waiting is not None and waiting.run is not None and waiting.letter != letter:
            self.session.take("b", waiting.letter)
        self.session.spare()
        self.was_closed()
        # what is still being read, or could not be, remains what was asked for
        open_ends = self.loader.lines.keys() | self.loader.failures.keys()
        self.wanted = {**self.session.sides, **{of: one for of, one in self.wanted.items() if one in open_ends}}
        moved = self.session.sides.get("a") != before.get("a")
        self.reload_views("a" if side == "a" or moved else "b")
        if "a" in self.session.runs:
            self.screen_stack[0].query_one("#loading").display = False
            self.show_tab(self.tab)

    def action_swap_runs(self) -> None:
        """Exchanges A and B."""
        if len(self.session.runs) < 2:
            self.say(f"There is no second run: {commands.key('run.open')} opens one")
            return
        self.session.swap()
        self.wanted = dict(self.session.sides)
        self.reload_views()
        self.refresh_lines()

    def close_run(self, letter: str) -> bool:
        """Takes a run out of the list; not the one in view. Whether that was done."""
        if self.session.sides.get("a") == letter:
            self.say("This run is in view: look at another one before closing it")
            return False
        compared = self.session.sides.get("b") == letter
        self.loader.give_up(letter)
        self.loader.failures.pop(letter, None)
        self.wanted = {side: wanted for side, wanted in self.wanted.items() if wanted != letter}
        self.session.close(letter)
        self.was_closed()
        if compared:
            self.reload_views("b")
        self.refresh_lines()
        return True

    def leaving(self) -> None:
        """Called before another run is shown, or compared."""

    def was_closed(self) -> None:
        """Called when runs may have gone out of memory."""

    # --- lists to choose from

    def action_runs(self, title: str = "") -> None:
        """Shows the list of runs."""
        if "a" not in self.session.runs:
            return
        from tracetui.app.screen.runs_screen import RunsScreen

        self.push_screen(RunsScreen(self, title), self._chosen)

    def _chosen(self, choice: tuple[str, str] | None) -> None:
        """What was asked for in the list of runs."""
        what, letter = choice or ("", "")
        if what == "view":
            self.look_at(letter)
        elif what == "compare":
            self.leaving()
            self.look_at(letter, "b")
            self.show_tab("diff")
        elif what == "open":
            self._ask_for_run("a", " Open …")

    def action_open_other(self) -> None:
        """Asks for the run to compare with."""
        if "a" in self.session.runs:
            name = printable(self.session.runs["a"].name)
            self._ask_for_run("b", self.own(f" Compare {name} (A) with …"))

    def _ask_for_run(self, side: Side, title: str) -> None:
        from tracetui.app.screen.dialogs import RunPicker
        from tracetui.app.screen.start_list import traces_beside

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths:
                if side == "b":
                    self.leaving()
                self.open_run(side, paths)
                if side == "b":
                    self.show_tab("diff")

        entries = [entry for entry in self.session.open.values() if entry.letter != self.session.sides["a"]]
        # the one that it was compared with before is at hand
        entries.sort(key=lambda entry: not entry.remark)
        known: list[Choice] = [(f"{entry.letter}  {entry.name}", entry.paths) for entry in entries]
        run = self.session.runs["a"]
        beside = [
            choice
            for choice in traces_beside(run.path)
            if not any(entry.is_of(choice[1]) for entry in self.session.open.values())
        ]
        ascii = self.session.ascii
        self.push_screen(RunPicker(self.own(title), [*known, *beside], ascii=ascii), chosen)

    def action_captures(self) -> None:
        """Compares the files of the folder that was opened, as far as they are of this run's kind."""
        if (run := self.session.runs.get("a")) is None:
            return
        mine = self.session.open[self.session.sides["a"]]
        others = tuple(
            (entry.name, entry.paths)
            for entry in self.session.open.values()
            if entry is not mine and entry.origin == mine.origin
        )
        if not others:
            self.say("There is nothing to compare with: open the folder that holds all captures")
            return
        from tracetui.app.screen.captures_screen import CapturesScreen

        def chosen(paths: tuple[Path, ...] | None) -> None:
            if paths and not mine.is_of(paths):
                self.open_run("a", paths)

        whole = replace(run, others=others)
        ascii = self.session.ascii
        self.push_screen(CapturesScreen(whole, self.session.scope, use_cache=self.keeps_parsed, ascii=ascii), chosen)

    def run_places(self) -> list[tuple[str, str]]:
        """(letter, words) of the runs that the palette can bring into view."""
        return [(entry.letter, f"{entry.letter}  {entry.name}") for entry in self.session.open.values()]


def _configured(run: Run, problems: Sequence[str]) -> tuple[Run, Config]:
    """The user's thresholds for a run; what is wrong with these, or other settings, counts as its warnings.

    Args:
        run: that was read.
        problems: of the other settings, a line each.
    """
    from tracetui.analysis.findings import config

    found = config.load(run.path, Path.cwd())
    home = os.environ.get("HOME", "").rstrip("/")
    lines = (line.replace(f"{home}/", "~/") if home else line for line in (*problems, *found.problems))
    said = tuple(dict.fromkeys(lines))
    return (replace(run, warnings=(*run.warnings, *said)) if said else run), found


def _is_sweep(paths: tuple[Path, ...]) -> bool:
    """Whether what was opened is a folder with a sweep's index."""
    from tracetui.parsers.runs.sweep_place import INDEX

    return any((path / INDEX).is_file() for path in paths)
