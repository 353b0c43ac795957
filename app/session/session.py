"""What is open and what the numbers are about: the only state of the screen, and the cache of its analyses."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast

from tracetui.analysis.scope import Scope
from tracetui.app.session.open_runs import OpenRun
from tracetui.app.text.fitting import letter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from tracetui.analysis.findings.config import Config
    from tracetui.analysis.selection import Selection
    from tracetui.app.tables.totals import Per
    from tracetui.app.text.names import Names
    from tracetui.parsers import Run, Trace

Side = Literal["a", "b"]
Key: TypeAlias = "tuple[Hashable, int, int, int | None, str | None, Scope]"
"""What was computed; of which reading of run A, and of run B where that has a part in it; rank, tool, scope."""
_SIDES: tuple[Side, Side] = ("a", "b")
PARTS_OF_B = frozenset({"diff", "comparable", "compared findings", ("b", "selection")})
"""Keys of cached analyses that change with run B."""
KEPT = 6
"""Runs neither in view nor compared that stay in memory; the others are read again when they are looked at."""
T = TypeVar("T")


@dataclass
class Session:
    """The open runs, which of them is in view (A) and compared (B), their scope, the filter and the choices made."""

    scope: Scope = field(default_factory=Scope)
    rank: int | None = None
    """The distributed rank in view; the first one where not chosen."""
    kind: str | None = None
    """The tool whose recording is in view (`TraceInfo.kind`); the run's main one where not chosen."""
    filter: str = ""
    """The filter in force on the main table of every tab."""
    ascii: bool = False
    names: Names = "short"
    """How names are written; raw is as the file has them, where that is not what the program's author wrote."""
    per: Per = "total"
    """What the tables' totals are of: the whole range, one of its steps, one call."""
    per_in_diff: Per = "step"
    """The same where two runs are compared."""
    grouped: dict[str, str] = field(default_factory=dict)
    """What a tab's rows are grouped by, where not by name."""
    open: dict[str, OpenRun] = field(default_factory=dict)
    """Every run of the list, by its letter."""
    sides: dict[Side, str] = field(default_factory=dict)
    """The letters of A, the run in view, and of B, the one it is compared with."""
    config: Config | None = None
    """The user's thresholds of rules, and which are silenced."""
    hidden: dict[str, frozenset[str]] = field(default_factory=dict)
    """Columns switched off, by page id."""
    pinned: dict[str, frozenset[str]] = field(default_factory=dict)
    """Columns asked for, by page id: they go before others where room is short."""
    sorts: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Column that a page begins sorted by, and whether the largest comes first; where not its own."""
    range_words: str = ""
    """What the marked range is called, while `scope.window` restricts everything to it."""
    _results: dict[Key, object] = field(default_factory=dict, repr=False)
    _locks: dict[Key, Lock] = field(default_factory=dict, repr=False)
    _guard: Lock = field(default_factory=Lock, repr=False)

    @property
    def runs(self) -> dict[Side, Run]:
        """A and B, as far as they are read."""
        found = {side: self.open[letter].run for side, letter in self.sides.items() if letter in self.open}
        return {side: run for side, run in found.items() if run is not None}

    def add(self, paths: tuple[Path, ...], *, origin: Path | None = None, label: str = "") -> OpenRun:
        """Puts a run into the list, under the first letter that is free."""
        letter = next(letter for letter in map(letter_of, range(len(self.open) + 1)) if letter not in self.open)
        entry = OpenRun(letter, paths, origin or paths[0], label)
        self.open[letter] = entry
        self.open = dict(sorted(self.open.items(), key=lambda item: (len(item[0]), item[0])))
        return entry

    def take(self, side: Side, letter: str) -> None:
        """Makes an open run A or B; A and B change places where it has the other part."""
        other: Side = "b" if side == "a" else "a"
        sides = {**self.sides, side: letter}
        if self.sides.get(other) == letter:
            if side in self.sides:
                sides[other] = self.sides[side]
            else:
                del sides[other]
        self._share(sides)

    def close(self, letter: str) -> None:
        """Takes a run out of the list."""
        self._share({side: used for side, used in self.sides.items() if used != letter})
        self.forget(self.open.pop(letter).number)

    def spare(self) -> None:
        """Lets go of what was not looked at for the longest time, where much is in memory."""
        idle = [e for e in self.open.values() if e.run is not None and e.letter not in self.sides.values()]
        for entry in sorted(idle, key=lambda entry: -entry.looked)[KEPT:]:
            self.forget(entry.number)
            entry.drop()

    def forget(self, number: int) -> None:
        """Drops the analyses that a reading of a run had a part in."""
        with self._guard:
            for full in [full for full in self._locks if number in full[1:3]]:
                self._results.pop(full, None)
                del self._locks[full]

    def swap(self) -> None:
        """Exchanges A and B."""
        self._share({"a": self.sides["b"], "b": self.sides["a"]})

    def _share(self, sides: dict[Side, str]) -> None:
        """Gives the parts of A and B; a marked range and thresholds go with the run that they belong to."""
        before, after = self.open.get(self.sides.get("a", "")), self.open.get(sides.get("a", ""))
        if before is not None and before is not after:
            before.window, before.window_words = self.scope.window, self.range_words
        self.sides = sides
        latest = 1 + max((entry.looked for entry in self.open.values()), default=0)
        for letter in sides.values():
            self.open[letter].looked = latest
        if after is not None:
            self.config = after.config
        if before is not after:
            window, words = (after.window, after.window_words) if after is not None else (None, "")
            self.scope, self.range_words = replace(self.scope, window=window), words

    def frozen(self) -> Session:
        """A copy that stays as it is, whichever run comes into view meanwhile; analyses are kept by both together."""
        same = copy(self)
        same.open = {letter: copy(entry) for letter, entry in self.open.items()}
        same.sides = dict(self.sides)
        return same

    def restrict(self, window: tuple[int, int] | None, words: str = "") -> None:
        """Restricts everything to a stretch of time, or nothing; what an earlier stretch gave is forgotten.

        Args:
            window: start and end, ns on the clock of run A's trace.
            words: what the stretch is called.
        """
        if self.scope.window is not None:
            with self._guard:
                for full in [full for full in self._locks if full[-1].window is not None]:
                    self._results.pop(full, None)
                    del self._locks[full]
        self.scope = replace(self.scope, window=window)
        self.range_words = words if window is not None else ""

    def trace(self, side: Side = "a") -> Trace:
        """The trace in view: of the chosen rank and tool as far as the run has them, else the run's main one."""
        from tracetui.parsers.runs.run import main_of

        traces = self.runs[side].traces
        if self.rank is not None:
            traces = tuple(trace for trace in traces if trace.info.rank == self.rank) or traces
        if self.kind is not None:
            traces = tuple(trace for trace in traces if trace.info.kind == self.kind) or traces
        return main_of(traces)

    def selection(self, side: Side = "a") -> Selection:
        """The trace in view restricted to the scope; one object for as long as neither changes."""
        from tracetui.analysis.selection import select

        trace = self.trace(side)
        # a range is marked on the clock of A
        scope = self.scope if side == "a" else replace(self.scope, window=None)
        return self.cached((side, "selection"), lambda: select(trace, scope))

    @property
    def has_steps(self) -> bool:
        """Whether there is a number per step."""
        return self.selection().steps.height > 0

    @property
    def per_step(self) -> bool:
        """Whether the tables' numbers are of the average step."""
        return self.per == "step" and self.has_steps

    def counted(self) -> Selection:
        """What the tables count: the selection; where they give numbers per step, what of it lies in steps."""
        from tracetui.analysis.selection import in_steps

        selection = self.selection()
        return self.cached("in steps", lambda: in_steps(selection)) if self.per_step else selection

    def of_counted(self, key: Hashable, compute: Callable[[Selection], T]) -> T:
        """The result of an analysis of what the tables count, computed once."""
        counted = self.counted()
        return self.cached(("in steps", key) if self.per_step else key, lambda: compute(counted))

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The result of an analysis, computed once per run, rank, tool and scope; safe in threads."""
        numbers = [self.open[self.sides[side]].number if side in self.sides else 0 for side in _SIDES]
        full = (key, numbers[0], numbers[1] if key in PARTS_OF_B else 0, self.rank, self.kind, self.scope)
        with self._guard:
            if full in self._results:
                return cast("T", self._results[full])
            lock = self._locks.setdefault(full, Lock())
        with lock:
            with self._guard:
                if full in self._results:
                    return cast("T", self._results[full])
            result = compute()
            with self._guard:
                # a run that was replaced meanwhile has no place left for it
                if self._locks.get(full) is lock:
                    self._results[full] = result
        return result

    @property
    def partial(self) -> bool:
        """Whether reading was stopped before the end of a file in view."""
        return any(trace.source.partial for run in self.runs.values() for trace in run.traces)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The tools whose recordings of run A have a time line of their own."""
        traces = self.runs["a"].traces if "a" in self.runs else ()
        return tuple(dict.fromkeys(trace.info.kind for trace in traces if trace.has_timeline))

    def next_kind(self) -> str | None:
        """Goes on to the recording of the run's next tool; null where there is but one."""
        kinds = self.kinds
        if len(kinds) < 2:
            return None
        current = self.trace().info.kind
        self.kind = kinds[(kinds.index(current) + 1) % len(kinds)] if current in kinds else kinds[0]
        return self.kind

    def next_rank(self) -> int | None:
        """Goes on to the run's next rank; null where there is but one."""
        ranks = self.runs["a"].ranks if "a" in self.runs else ()
        if len(ranks) < 2:
            return None
        current = self.trace().info.rank
        self.rank = ranks[(ranks.index(current) + 1) % len(ranks)] if current in ranks else ranks[0]
        return self.rank
